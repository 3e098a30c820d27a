//! A store in a file whose disk is full, or whose writer dies in the middle of a record.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use consort_store::{Deadline, Error, FileStore, Store};
use consort_testkit::skip;
use rustix::process::Signal;

#[test]
fn a_record_whose_writer_died_in_it_is_ignored_and_then_removed() {
    if let Some(path) = std::env::var_os(INSIDE) {
        // At the limit the system writes what still fits, and ends the process at the next try.
        let store = FileStore::open(Path::new(&path)).unwrap();
        store.set("whole", b"value").unwrap();
        store.set("torn", &vec![7; 1 << 20]).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = FileStore::open(&path).unwrap();
    let limited = "ulimit -c 0 && ulimit -f 512 && exec \"$@\"";
    let output = run_this_test_inside(
        &["sh", "-c", limited, "sh"],
        "a_record_whose_writer_died_in_it_is_ignored_and_then_removed",
        &path,
    );
    assert_eq!(output.status.signal(), Some(Signal::XFSZ.as_raw()), "{output:?}");

    let torn = fs::metadata(&path).unwrap().len();
    assert!((512 * 512..1 << 20).contains(&torn), "{torn} bytes");
    assert_eq!(store.list_keys().unwrap(), ["whole"]);
    let late = Duration::from_millis(50);
    let error = store.get("torn", Deadline::after(late)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), torn, "a reader changed the file");

    store.set("after", b"").unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1000);
    assert_eq!(FileStore::open(&path).unwrap().list_keys().unwrap(), ["after", "whole"]);
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_is_lost() {
    if let Some(path) = std::env::var_os(INSIDE) {
        return fill_up(Path::new(&path), "File too large");
    }
    let dir = tempfile::tempdir().unwrap();
    let limited = "ulimit -f 512 && trap '' XFSZ && exec \"$@\"";
    assert_passed(&run_this_test_inside(
        &["sh", "-c", limited, "sh"],
        "a_file_that_may_not_grow_is_an_error_and_nothing_is_lost",
        &dir.path().join("store"),
    ));
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_lost() {
    if let Some(path) = std::env::var_os(INSIDE) {
        return fill_up(Path::new(&path), "No space left on device");
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=256k none \"$1\"";
    let place = dir.path().to_str().unwrap();
    let tried = Command::new("unshare").args(["-m", "sh", "-c", mount, "sh", place]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return skip("a small file system cannot be mounted: it takes root and `unshare`");
    }
    let mounted = format!("{mount} && shift && exec \"$@\"");
    assert_passed(&run_this_test_inside(
        &["unshare", "-m", "sh", "-c", &mounted, "sh", place],
        "a_full_disk_is_an_error_and_nothing_is_lost",
        &dir.path().join("store"),
    ));
}

/// Runs the test once more, in an environment made by the command's first words.
fn run_this_test_inside(words: &[&str], test: &str, path: &Path) -> Output {
    Command::new(words[0])
        .args(&words[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, path)
        .output()
        .unwrap()
}

fn assert_passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

fn fill_up(path: &Path, expected: &str) {
    let (store, other) = (FileStore::open(path).unwrap(), FileStore::open(path).unwrap());
    let value = [7; 10_000];
    let mut written = Vec::new();
    let (length, error) = loop {
        let key = format!("key {:03}", written.len());
        let length = fs::metadata(path).unwrap().len();
        match store.set(&key, &value) {
            Ok(()) => written.push(key),
            Err(error) => break (length, error),
        }
        assert!(written.len() < 100, "it is never full");
    };
    let said = error.to_string();
    assert!(said.contains(expected) && said.contains("nothing was changed"), "{said}");
    assert!(written.len() > 10);
    assert_eq!(fs::metadata(path).unwrap().len(), length);
    for store in [&store, &other] {
        assert_eq!(store.list_keys().unwrap(), written);
    }
    // What was taken back has made room for something smaller.
    store.delete(&written[0]).unwrap();
    other.set("small", b"fits").unwrap();
    let newcomer = FileStore::open(path).unwrap();
    assert_eq!(newcomer.get("small", Deadline::now()).unwrap(), b"fits");
    assert_eq!(newcomer.num_keys().unwrap(), written.len());
    drop((store, other, newcomer));
    assert!(!path.exists());
}

const INSIDE: &str = "CONSORT_TEST_STORE_PATH";
