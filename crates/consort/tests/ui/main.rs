//! What the compiler refuses, with what it says.
//!
//! Each file is one misuse, and the file beside it what the pinned compiler says of it, so that none
//! is refused for another reason. After a change of compiler: `TRYBUILD=overwrite cargo test -p
//! consort --test ui`, and read what has changed.

#[test]
fn the_compiler_refuses_every_misuse_of_buffers() {
    let cases = trybuild::TestCases::new();
    for kind in ["blocking", "owned", "scoped", "windows"] {
        cases.compile_fail(format!("tests/ui/{kind}/*.rs"));
    }
}
