//! A store in a file, used from one process: what it does with the file.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Error, ErrorKind, FileStore, Store};
use tempfile::TempDir;

fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    (dir, path)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

fn names_in(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn refused(path: &Path) -> String {
    let error = FileStore::open(path).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error:?}");
    error.to_string()
}

/// As if all who used the store had been killed.
fn abandon(path: &Path, store: FileStore) {
    let users = path.with_extension("users");
    let (data, kept) = (fs::read(path).unwrap(), path.with_extension("kept"));
    fs::write(&kept, data).unwrap();
    drop(store);
    fs::rename(&kept, path).unwrap();
    fs::write(users, b"").unwrap();
}

#[test]
fn the_files_are_this_users_only_and_go_with_the_last_handle() {
    let (dir, path) = scratch();
    let first = FileStore::open(&path).unwrap();
    assert_eq!(names_in(&dir), ["store", "store.users"]);
    for name in names_in(&dir) {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    first.set("key", b"value").unwrap();
    let second = first.duplicate().unwrap();
    drop(first);
    assert_eq!(second.get("key", Deadline::now()).unwrap(), b"value");
    drop(second);
    assert_eq!(names_in(&dir), [""; 0]);
}

#[test]
fn what_a_dead_job_left_is_not_seen_again() {
    let (dir, path) = scratch();
    let store = FileStore::open(&path).unwrap();
    store.set("old", b"").unwrap();
    abandon(&path, store);
    assert_eq!(names_in(&dir), ["store", "store.users"]);

    let store = FileStore::open(&path).unwrap();
    assert_eq!(store.num_keys().unwrap(), 0);
    store.set("new", b"").unwrap();
    assert_eq!(FileStore::open(&path).unwrap().list_keys().unwrap(), ["new"]);
    drop(store);
    assert_eq!(names_in(&dir), [""; 0]);
}

#[test]
fn a_store_whose_creator_died_at_any_byte_of_the_header_is_started_anew() {
    let (_dir, path) = scratch();
    let store = FileStore::open(&path).unwrap();
    let header = fs::read(&path).unwrap();
    abandon(&path, store);
    for cut in 0..=header.len() {
        fs::write(&path, &header[..cut]).unwrap();
        fs::write(path.with_extension("users"), b"").unwrap();
        let store = FileStore::open(&path).unwrap();
        store.set("key", b"").unwrap();
        assert!(FileStore::open(&path).unwrap().check(&["key"]).unwrap(), "cut at {cut}");
    }
}

#[test]
fn data_whose_users_cannot_be_known_is_not_thrown_away() {
    let (_dir, path) = scratch();
    let store = FileStore::open(&path).unwrap();
    store.set("key", b"").unwrap();
    fs::remove_file(path.with_extension("users")).unwrap();
    let said = refused(&path);
    assert!(said.contains("store.users") && said.contains("delete it"), "{said}");
    assert!(!path.with_extension("users").exists());
    assert_eq!(store.list_keys().unwrap(), ["key"]);
}

#[test]
fn a_file_of_somebody_elses_is_left_as_it_is() {
    let (dir, path) = scratch();
    fs::write(&path, b"rank,loss\n0,0.25\n").unwrap();
    let said = refused(&path);
    assert!(said.contains("not a store's file"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), b"rank,loss\n0,0.25\n");
    assert_eq!(names_in(&dir), ["store"]);
}

#[test]
fn a_path_that_cannot_be_a_store_is_refused_with_the_reason() {
    let (dir, path) = scratch();
    assert!(refused(dir.path()).contains("is a directory"));
    assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
    assert!(refused(&dir.path().join("no/such/store")).contains("does not exist"));
    fs::write(&path, b"").unwrap();
    fs::hard_link(&path, dir.path().join("second name")).unwrap();
    assert!(refused(&path).contains("hard links"));
}

#[test]
fn another_versions_store_is_refused_while_it_is_used() {
    let (_dir, path) = scratch();
    let store = FileStore::open(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, bytes).unwrap();
    assert!(refused(&path).contains("another version of consort"));
    let error = store.num_keys().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mistake);
    drop(store);
}

#[test]
fn symbolic_links_lead_to_one_store() {
    let (dir, path) = scratch();
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let by_link = FileStore::open(&link).unwrap();
    let by_name = FileStore::open(&path).unwrap();
    assert_eq!(by_link.path(), by_name.path());
    by_link.set("key", b"value").unwrap();
    assert_eq!(by_name.get("key", Deadline::now()).unwrap(), b"value");
    drop((by_link, by_name));
    assert_eq!(names_in(&dir), ["link"]);
}

#[test]
fn an_empty_file_made_beforehand_will_do() {
    let (_dir, path) = scratch();
    fs::write(&path, b"").unwrap();
    FileStore::open(&path).unwrap().set("key", b"").unwrap();
}

#[test]
fn a_file_removed_while_in_use_ends_a_waiting_call() {
    let (_dir, path) = scratch();
    let store = Arc::new(FileStore::open(&path).unwrap());
    let waiting = store.clone();
    let waiter = thread::spawn(move || waiting.get("never", soon()));
    store.set("key", b"").unwrap();
    fs::remove_file(&path).unwrap();
    let said = waiter.join().unwrap().unwrap_err().to_string();
    assert!(said.contains("somebody removed it"), "{said}");
    assert!(store.duplicate().is_err());
}

#[test]
fn a_waiting_call_does_not_hold_up_another_on_the_same_handle() {
    let (_dir, path) = scratch();
    let store = Arc::new(FileStore::open(&path).unwrap());
    let waiting = store.clone();
    let waiter = thread::spawn(move || waiting.get("late", soon()));
    for round in 0..200 {
        assert_eq!(store.add("counter", 1).unwrap(), round + 1);
    }
    store.set("late", b"here").unwrap();
    assert_eq!(waiter.join().unwrap().unwrap(), b"here");
}

#[test]
fn a_waiting_call_comes_back_soon_after_what_it_waits_for() {
    let (_dir, path) = scratch();
    let (one, two) = (FileStore::open(&path).unwrap(), FileStore::open(&path).unwrap());
    let rounds = 50;
    let partner = thread::spawn(move || {
        for round in 0..rounds {
            two.get(&format!("there {round}"), soon()).unwrap();
            two.set(&format!("back {round}"), b"").unwrap();
        }
    });
    // Without watching the file's length each of the hundred waits would take 0.2 seconds.
    let limit = Deadline::after(Duration::from_secs(8));
    for round in 0..rounds {
        one.set(&format!("there {round}"), b"").unwrap();
        one.get(&format!("back {round}"), soon()).unwrap();
    }
    partner.join().unwrap();
    assert!(!limit.has_passed());
}

#[test]
fn threads_with_handles_of_their_own_count_together() {
    let (_dir, path) = scratch();
    let keep = FileStore::open(&path).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || {
                let store = FileStore::open(path).unwrap();
                (0..100).map(|_| store.add("counter", 1).unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut seen: Vec<i64> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=400).collect::<Vec<i64>>());
    assert_eq!(keep.add("counter", 0).unwrap(), 400);
}

#[test]
fn a_value_of_the_largest_size_goes_through_and_a_larger_one_is_refused() {
    let (_dir, path) = scratch();
    let store = FileStore::open(&path).unwrap();
    let value = vec![7; 8 << 20];
    store.set("large", &value).unwrap();
    assert!(FileStore::open(&path).unwrap().get("large", soon()).unwrap() == value);
    let length = fs::metadata(&path).unwrap().len();
    let error = store.set("large", &vec![7; (8 << 20) + 1]).unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
}

#[test]
fn heartbeats_do_not_fill_the_disk_and_newcomers_see_the_last() {
    let (_dir, path) = scratch();
    let (store, sleeper) = (FileStore::open(&path).unwrap(), FileStore::open(&path).unwrap());
    store.push("queue", b"first").unwrap();
    store.push("queue", b"second").unwrap();
    for beat in 0..2_000_u32 {
        let value = [&beat.to_le_bytes()[..], &[0; 4 << 10]].concat();
        store.set("heartbeat", &value).unwrap();
    }
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 4 << 20);
    for store in [&sleeper, &FileStore::open(&path).unwrap()] {
        assert_eq!(store.get("heartbeat", soon()).unwrap()[..4], 1_999_u32.to_le_bytes());
        assert_eq!(store.queue_len("queue").unwrap(), 2);
    }
}
