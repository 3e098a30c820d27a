//! The library itself.

use consort::nccl::{Bootstrap, Code, Feature, Library, Version};

use crate::meet::{library, path};

#[test]
fn it_is_loaded_once_and_says_who_it_is() {
    let library = library();
    assert_eq!(library, Library::open(path()).unwrap());
    assert_eq!(library.version(), Version::new(2, 30, 7));
    assert!(library.identity().unwrap().starts_with("consort-nccl "), "{library:?}");
    assert_eq!(library.features().collect::<Vec<_>>(), Feature::ALL);
    let missing: Vec<_> = library.functions().filter(|(_, _, is_there)| !is_there).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_code_has_a_text() {
    let texts: Vec<String> = (0..9).map(|code| library().error_string(Code(code))).collect();
    assert!(texts.iter().all(|text| !text.is_empty()));
    assert_ne!(texts[8], library().error_string(Code(4711)));
}

#[test]
fn ids_are_never_the_same() {
    let made: Vec<Bootstrap> = (0..3).map(|_| Bootstrap::new(library()).unwrap()).collect();
    assert!(made[0].id() != made[1].id() && made[1].id() != made[2].id());
    made.into_iter().for_each(Bootstrap::release);
}

#[test]
fn parameters_can_be_read() {
    let names = library().parameters().unwrap();
    for name in &names {
        library().parameter(name).unwrap();
    }
    let error = library().parameter("NCCL_NO_SUCH_THING").unwrap_err();
    assert!(error.code().is_some(), "{error}");
    assert!(library().parameter("a\0b").is_err());
}
