//! `consort secret`.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use consort_store::Secret;

#[test]
fn a_secret_is_made_for_its_owner_alone_and_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("job.secret");
    let made = consort_secret(&file);
    assert!(made.status.success(), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("--secret-file"), "{made:?}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let secret = Secret::from_file(&file).unwrap();
    assert!(!String::from_utf8_lossy(&made.stdout).contains(&secret.to_hex()));

    let again = consort_secret(&file);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert_eq!(Secret::from_file(&file).unwrap(), secret);
}

fn consort_secret(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort")).arg("secret").arg(file).output().unwrap()
}
