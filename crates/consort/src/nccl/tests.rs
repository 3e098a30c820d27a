//! NVIDIA's own NCCL, as far as it goes without a device.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use consort_testkit::{Skip, skip};

use super::find::SEARCH;
use super::*;

#[test]
fn the_real_one_is_found_in_the_active_environment_and_says_its_version() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    assert!(library.version() >= Version::new(2, 20, 0), "{library:?}");
    assert_eq!(Version::from_code(library.version().code()), Some(library.version()));
    assert_eq!(library.identity(), None);
    assert_eq!(Library::open(library.path()).unwrap(), library);
}

#[test]
fn the_real_one_has_every_function_of_its_version() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    for (name, since, is_there) in library.functions() {
        let is_expected = name.starts_with("nccl") && since <= library.version();
        assert_eq!(is_there, is_expected, "{name} in {library:?}");
    }
    for feature in Feature::ALL {
        assert_eq!(library.has(*feature), feature.since() <= library.version(), "{feature:?}");
    }
}

#[test]
fn ids_of_the_real_one_are_never_the_same() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    let made: Vec<Bootstrap> = (0..3).map(|_| Bootstrap::new(library).unwrap()).collect();
    assert!(made[0].id() != made[1].id() && made[1].id() != made[2].id());
    let sent = UniqueId::from_bytes(made[0].id().as_bytes()).unwrap();
    assert_eq!(&sent, made[0].id());
    made.into_iter().for_each(Bootstrap::release);
}

#[test]
fn the_real_one_says_what_its_codes_mean() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    let text = |code| library.error_string(Code(code)).to_lowercase();
    for (code, part) in [
        (0, "no error"),
        (1, "unhandled cuda error"),
        (2, "unhandled system error"),
        (3, "internal error"),
        (4, "invalid argument"),
        (5, "invalid usage"),
        (6, "remote"),
        (7, "in progress"),
        (4711, "unknown"),
        (-1, "unknown"),
    ] {
        assert!(text(code).contains(part), "{code}: {}", text(code));
    }
    assert_eq!(text(8).contains("unknown"), library.version() < Version::new(2, 30, 0));
}

#[test]
fn groups_of_the_real_one_are_counted() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    let inner = group(library, || group(library, || Ok(7)));
    assert_eq!(inner, Ok(7));
    assert_eq!(library.table().end_group(), Ok(Code::INVALID_USAGE));
    let error = library.succeed("ncclGroupEnd", library.table().end_group(), None).unwrap_err();
    assert_eq!(error.code(), Some(Code::INVALID_USAGE), "{error}");
}

#[test]
fn without_a_device_the_real_one_says_what_to_do() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    if Path::new("/dev/nvidiactl").exists() {
        return skip("there is a device");
    }
    let bootstrap = Bootstrap::new(library).unwrap();
    for failed in [
        Comm::init_rank(library, 1, bootstrap.id(), 0).map(drop),
        Comm::init_rank(library, 2, bootstrap.id(), 1).map(drop),
        Comm::init_rank_with(library, 1, bootstrap.id(), 0, &Config::new().blocking(true))
            .map(drop),
        Comm::init_all(library, &[0]).map(drop),
        Memory::new(library, 1024).map(drop),
    ] {
        let error = failed.unwrap_err();
        assert_eq!(error.code(), Some(Code::UNHANDLED_CUDA_ERROR), "{error}");
        let text = error.to_string();
        assert!(text.contains("unhandled cuda error") && text.contains("is there a GPU"), "{text}");
    }
    bootstrap.release();
}

#[test]
fn parameters_of_the_real_one_can_be_read() {
    let library = match real() {
        Ok(library) => library,
        Err(reason) => return skip(reason),
    };
    if !library.has(Feature::Parameters) {
        let error = library.parameters().unwrap_err();
        assert!(matches!(error, Error::NeedsVersion { .. }), "{error}");
        return;
    }
    let names = library.parameters().unwrap();
    assert!(!names.is_empty());
    for name in &names {
        library.parameter(name).unwrap();
    }
    assert!(library.parameter("NCCL_NO_SUCH_THING").is_err());
}

/// NVIDIA's, installed under `target/` if it is not there yet. What cannot be had on somebody's own machine is skipped;
/// where the tests decide, it has to be there.
pub(super) fn real() -> Result<Library, Skip> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new(root.join("tools/nccl")).output().unwrap();
    if !made.status.success() {
        let reason = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(std::env::var_os("CI").is_none(), "NCCL could not be installed: {reason}");
        return Err(Skip::new(format!("NCCL could not be installed: {reason}")));
    }
    let environment = root.canonicalize().unwrap().join("target/venv-nccl");
    let active = |name: &str| (name == "VIRTUAL_ENV").then(|| OsString::from(&environment));
    let wheels: Vec<PathBuf> =
        SEARCH.places(active, None).candidates.into_iter().filter(|it| it.is_absolute()).collect();
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    Ok(Library::open(&wheels[0]).unwrap())
}
