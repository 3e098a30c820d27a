use std::fs;
use std::os::fd::BorrowedFd;

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use super::*;
use crate::file::replay::tests::{STORY, contents};
use crate::request::Reply;

fn flock(fd: BorrowedFd<'_>, operation: FlockOperation) -> rustix::io::Result<()> {
    rustix::fs::flock(fd, operation)
}

fn scratch() -> (TempDir, LockFile) {
    let dir = tempfile::tempdir().unwrap();
    let data = LockFile::open(&dir.path().join("store"), flock).unwrap();
    (dir, data)
}

/// Somebody else, who has just come.
fn newcomer(data: &LockFile) -> Log {
    let mut log = Log::join(data.file()).unwrap();
    log.catch_up(data, Mode::Shared).unwrap();
    log
}

fn carry_out(log: &mut Log, data: &LockFile, request: &Request<'_>) {
    log.catch_up(data, Mode::Exclusive).unwrap();
    let outcome = log.apply(data.file(), request).unwrap();
    assert!(!matches!(outcome, Outcome::Blocked(_) | Outcome::Settled(Reply::Refused(_))));
    log.shorten(data);
}

fn length(data: &LockFile) -> u64 {
    data.file().metadata().unwrap().len()
}

#[test]
fn what_one_writes_another_reads() {
    let (_dir, data) = scratch();
    let mut writer = Log::create(data.file()).unwrap();
    let mut reader = newcomer(&data);
    for request in &STORY {
        carry_out(&mut writer, &data, request);
        reader.catch_up(&data, Mode::Shared).unwrap();
        assert_eq!(contents(reader.table()), contents(writer.table()));
    }
    assert_eq!(contents(newcomer(&data).table()), contents(writer.table()));
}

#[test]
fn what_changes_nothing_is_not_written() {
    let (_dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    carry_out(&mut log, &data, &Request::Set { key: "n", value: b"7" });
    let before = length(&data);
    for request in [
        Request::Set { key: "n", value: b"7" },
        Request::Add { key: "n", delta: 0 },
        Request::CompareSet { key: "n", expect: Some(b"8"), new: b"9" },
        Request::Append { key: "n", value: b"" },
        Request::Delete { key: "none" },
        Request::MultiSet { pairs: Vec::new() },
        Request::Withdraw { key: "none", rank: 0, generation: 0 },
        Request::Get { key: "n" },
    ] {
        carry_out(&mut log, &data, &request);
        assert_eq!(length(&data), before, "{request:?}");
    }
}

#[test]
fn a_log_torn_at_any_byte_is_ignored_by_readers_and_mended_by_the_next_writer() {
    let (dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    for request in &STORY {
        carry_out(&mut log, &data, request);
    }
    let whole = fs::read(data.path()).unwrap();
    for cut in Header::SIZE..whole.len() {
        let path = dir.path().join(format!("cut at {cut}"));
        fs::write(&path, &whole[..cut]).unwrap();
        let data = LockFile::open(&path, flock).unwrap();

        let reader = newcomer(&data);
        assert_eq!(length(&data), cut as u64);
        let mut writer = Log::join(data.file()).unwrap();
        writer.catch_up(&data, Mode::Exclusive).unwrap();
        assert_eq!(length(&data), writer.replay.position);
        assert_eq!(contents(writer.table()), contents(reader.table()));

        carry_out(&mut writer, &data, &Request::Set { key: "later", value: b"" });
        assert_eq!(contents(newcomer(&data).table()), contents(writer.table()));
    }
}

#[test]
fn damage_is_reported_with_its_place_and_what_to_do() {
    let (_dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    carry_out(&mut log, &data, &STORY[0]);
    let second = length(&data);
    carry_out(&mut log, &data, &STORY[1]);
    carry_out(&mut log, &data, &STORY[2]);
    data.file().write_all_at(&[0xff], second + 14).unwrap();
    for mode in [Mode::Shared, Mode::Exclusive] {
        let said = Log::join(data.file()).unwrap().catch_up(&data, mode).unwrap_err();
        assert!(said.contains(&format!("damaged at byte {second}")), "{said}");
        assert!(said.contains("delete it"), "{said}");
    }
    // Who had read it before it was damaged goes on.
    carry_out(&mut log, &data, &STORY[3]);
}

#[test]
fn a_file_that_others_emptied_replaced_or_overwrote_is_not_used_on() {
    let (_dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    carry_out(&mut log, &data, &STORY[0]);

    let mut second = newcomer(&data);
    let mut third = newcomer(&data);
    data.file().set_len(FIRST).unwrap();
    assert!(log.catch_up(&data, Mode::Shared).unwrap_err().contains("emptied"));

    carry_out(&mut Log::create(data.file()).unwrap(), &data, &STORY[0]);
    assert!(second.catch_up(&data, Mode::Shared).unwrap_err().contains("emptied"));

    data.file().write_all_at(b"rank,loss\n", 0).unwrap();
    assert!(third.catch_up(&data, Mode::Shared).unwrap_err().contains("not a store's file"));
}

#[test]
fn a_file_that_was_removed_is_not_used_on() {
    let (_dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    fs::remove_file(data.path()).unwrap();
    assert!(log.catch_up(&data, Mode::Shared).unwrap_err().contains("removed"));
}

#[test]
fn another_versions_file_is_named_as_such() {
    let (_dir, data) = scratch();
    Log::create(data.file()).unwrap();
    data.file().write_all_at(&[9], 8).unwrap();
    assert!(Log::join(data.file()).unwrap_err().contains("another version of consort (format 9)"));
    assert!(may_be_emptied(data.file()).is_ok());
}

#[test]
fn a_log_that_grows_for_days_is_kept_short() {
    let (_dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    let mut sleeper = newcomer(&data);
    for request in &STORY {
        carry_out(&mut log, &data, request);
    }
    for beat in 0..400_u32 {
        let value = vec![beat as u8; 32 << 10];
        carry_out(&mut log, &data, &Request::Set { key: "heartbeat", value: &value });
        assert!(log.replay.length() < 2 << 20, "at {beat}");
    }
    assert!(length(&data) > 12 << 20);
    let used = data.file().metadata().unwrap().blocks() * 512;
    assert!(used < 4 << 20, "{used} bytes are in use");
    for log in [&mut sleeper, &mut newcomer(&data)] {
        log.catch_up(&data, Mode::Shared).unwrap();
        assert_eq!(contents(log.table()), contents(newcomer(&data).table()));
        assert_eq!(log.table().parts().count(), 4);
    }
    carry_out(&mut sleeper, &data, &STORY[5]);
    log.catch_up(&data, Mode::Shared).unwrap();
    assert_eq!(contents(log.table()), contents(sleeper.table()));
}

#[test]
fn who_dies_while_shortening_the_log_leaves_one_that_can_be_read() {
    let (dir, data) = scratch();
    let mut log = Log::create(data.file()).unwrap();
    for request in &STORY {
        carry_out(&mut log, &data, request);
    }
    let mut before = 0;
    for beat in 0_u8.. {
        before = log.replay.length();
        carry_out(&mut log, &data, &Request::Set { key: "h", value: &vec![beat; 128 << 10] });
        if log.replay.later_start().is_some() {
            break;
        }
    }
    let snapshot = log.replay.later_start().unwrap();
    assert!(before > 1 << 19);
    let expected = contents(log.table());
    let whole = fs::read(data.path()).unwrap();
    let path = dir.path().join("cut");
    let near_either_end = |cut: &u64| cut - snapshot < 150 || whole.len() as u64 - cut < 150;
    for cut in (snapshot..=whole.len() as u64).filter(near_either_end) {
        fs::write(&path, &whole[..cut as usize]).unwrap();
        let data = LockFile::open(&path, flock).unwrap();
        let mut next = newcomer(&data);
        assert_eq!(contents(next.table()), expected, "cut at {cut}");
        carry_out(&mut next, &data, &Request::Set { key: "h", value: b"last" });
        carry_out(&mut next, &data, &Request::Delete { key: "h" });
        assert_eq!(contents(newcomer(&data).table()), contents(next.table()), "cut at {cut}");
    }
}
