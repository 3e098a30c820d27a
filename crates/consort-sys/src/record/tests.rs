use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const ABOUT: About<'_> = About { rank: 2, world: 5, epoch: 7, job: "a job", sites: false };

fn private() -> Arc<Recording> {
    Recording::private(&ABOUT).unwrap()
}

fn journal(recording: &Arc<Recording>, name: &str) -> Journal {
    recording.journal(name, 1, &[4, 2, 0]).unwrap().unwrap()
}

#[test]
fn what_was_written_is_read() {
    let recording = private();
    let journal = journal(&recording, "some");
    journal.begin(1, [10, 11], None);
    journal.end(1, 100, true, 0);
    journal.queue(5);
    journal.was_queued(Duration::from_secs(1), None);
    journal.begin(2, [20, 21], None);
    journal.wait_for(2, 0);
    let Snapshot { rank, world, epoch, process, job, has_left, is_alive, sites, groups } =
        Snapshot::of(&recording);
    assert_eq!((rank, world, epoch, &job[..]), (2, 5, 7, "a job"));
    assert_eq!((process, has_left, is_alive), (std::process::id(), false, true));
    assert!(sites.is_empty());
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((&group.name[..], group.rank, group.world), ("some", 1, 3));
    assert_eq!((&group.members[..], group.made, group.bytes), (&[4, 2, 0][..], 5, 100));
    let [first, second] = group.calls[..] else { panic!("{group:?}") };
    assert_eq!((first.number, first.call, first.queued), (1, [10, 11], None));
    let end = first.end.unwrap();
    assert!(end.is_good && end.at >= first.began && end.at <= second.began, "{first:?} {second:?}");
    assert_eq!((second.call, second.end, second.waits_for), ([20, 21], None, Some(0)));
    let waited = second.began - second.queued.unwrap();
    assert!((900_000_000..1_200_000_000).contains(&waited), "{waited}");
    journal.end(2, 1, false, 0);
    assert!(!Snapshot::of(&recording).groups[0].calls[1].end.unwrap().is_good);
}

#[test]
fn sums_are_kept_of_calls_that_have_ended() {
    let recording = private();
    let journal = journal(&recording, "some");
    let millisecond = ticks::Ticks::best().in_time(Duration::from_millis(1));
    for (number, is_good, combined) in [(1, true, 0), (2, true, millisecond), (3, false, 0)] {
        journal.begin(number, [0, 0], None);
        journal.end(number, 10, is_good, combined);
    }
    journal.begin(4, [0, 0], None);
    let group = &Snapshot::of(&recording).groups[0];
    assert_eq!((group.made, group.ended, group.failed, group.bytes), (4, 3, 1, 30));
    let combined: Vec<_> =
        group.calls.iter().map(|call| call.end.map(|end| end.combined)).collect();
    let [Some(0), Some(some), Some(0), None] = combined[..] else { panic!("{combined:?}") };
    assert!((900_000..1_100_000).contains(&some) && group.combined == some, "{some}");
}

#[test]
fn calls_know_from_where_they_were_made() {
    let recording = Recording::private(&About { sites: true, ..ABOUT }).unwrap();
    let some = journal(&recording, "some");
    let here = std::panic::Location::caller();
    let there = std::panic::Location::caller();
    some.begin(1, [0, 0], Some(here));
    some.begin(2, [0, 0], Some(there));
    some.end(2, 0, true, 77);
    some.begin(3, [0, 0], Some(here));
    some.begin(4, [0, 0], None);
    some.was_queued(Duration::from_millis(1), Some(there));
    some.begin(5, [0, 0], None);
    let Snapshot { sites, groups, .. } = Snapshot::of(&recording);
    let texts = [here, there].map(|site| format!("{}:{}", site.file(), site.line()));
    assert_eq!(sites, texts);
    let found: Vec<_> = groups[0].calls.iter().map(|call| call.site).collect();
    assert_eq!(found, [Some(0), Some(1), Some(0), None, Some(1)]);
    assert_eq!(some.site(2).as_ref(), Some(&texts[1]));
    assert_eq!((some.site(4), some.site(2 + CALLS as u64)), (None, None));
    let silent = private();
    let other = journal(&silent, "some");
    other.begin(1, [0, 0], Some(here));
    assert_eq!((Snapshot::of(&silent).sites, other.site(1)), (vec![], None));
}

#[test]
fn times_are_those_of_the_clock_on_the_wall() {
    let recording = private();
    let journal = journal(&recording, "some");
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let before = now();
    journal.begin(1, [0, 0], None);
    let after = now();
    let began = Snapshot::of(&recording).groups[0].calls[0].began;
    let (least, most) = (before - 1_000_000, after + 1_000_000);
    assert!((least..most).contains(&began), "{before} {began} {after}");
}

#[test]
fn the_last_calls_stay() {
    let recording = private();
    let journal = journal(&recording, "some");
    let last = CALLS as u64 * 2 + 10;
    for number in 1..=last {
        journal.begin(number, [number, 0], None);
        journal.end(number, 1, true, 0);
    }
    let group = &Snapshot::of(&recording).groups[0];
    let numbers: Vec<u64> = group.calls.iter().map(|call| call.number).collect();
    assert_eq!(numbers, ((last - CALLS as u64 + 1)..=last).collect::<Vec<_>>());
    assert_eq!((group.made, group.bytes), (last, last));
}

#[test]
fn calls_are_whole_while_they_are_written() {
    let recording = private();
    let journal = journal(&recording, "some");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..2_000_000 {
                journal.begin(number, [number * 3, number * 5], None);
                journal.end(number, 1, true, 0);
                if number % 256 == 0 {
                    // Or there would be nothing left of what was there at the first look.
                    std::thread::sleep(Duration::from_millis(1));
                }
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        let (mut seen, mut looks) = (0, 0);
        // On a busy machine the writer may begin late, and is done before too long.
        while looks < 50 || (seen == 0 && !writer.is_finished()) {
            looks += 1;
            for call in &Snapshot::of(&recording).groups[0].calls {
                assert_eq!(call.call, [call.number * 3, call.number * 5]);
                assert!(call.end.is_none_or(|end| end.at >= call.began), "{call:?}");
                seen += 1;
            }
        }
        done.store(true, Relaxed);
        assert!(seen > 0);
    });
}

#[test]
fn a_file_is_read_when_its_writer_is_gone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("rank-2");
    let recording = Recording::in_file(&path, &ABOUT).unwrap();
    let some = journal(&recording, "some");
    some.begin(1, [1, 2], None);
    let names: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let live = Snapshot::of(&recording);
    drop((some, recording));
    let read = Snapshot::read(&path).unwrap();
    assert!(!read.is_alive && read.groups[0].has_left);
    assert_eq!(read.groups[0].calls[0].call, live.groups[0].calls[0].call);
    assert_eq!((read.rank, read.job), (live.rank, live.job));
}

#[test]
fn a_file_takes_no_more_memory_than_its_groups() {
    use std::os::unix::fs::MetadataExt;
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = scratch.path().join("rank-2");
    let recording = Recording::in_file(&path, &ABOUT).unwrap();
    let _two = [journal(&recording, "one"), journal(&recording, "other")];
    assert!(fs::metadata(path).unwrap().blocks() * 512 < 200 << 10);
}

#[test]
fn the_place_of_a_group_that_was_left_is_used_when_there_is_no_other() {
    let recording = private();
    let mut held: Vec<Journal> =
        (0..GROUPS).map(|index| journal(&recording, &index.to_string())).collect();
    held[3].begin(1, [9, 9], None);
    assert!(recording.journal("one more", 0, &[0]).unwrap().is_none());
    held.remove(3);
    assert!(Snapshot::of(&recording).groups[3].has_left);
    let _late = recording.journal("late", 0, &[0]).unwrap().unwrap();
    let group = &Snapshot::of(&recording).groups[3];
    assert_eq!((&group.name[..], group.calls.len(), group.has_left), ("late", 0, false));
}

#[test]
fn long_names_are_cut_and_large_groups_not_listed() {
    let recording = private();
    let members: Vec<u32> = (0..2000).collect();
    let name = "ü".repeat(100);
    let _journal = recording.journal(&name, 1999, &members).unwrap().unwrap();
    let group = &Snapshot::of(&recording).groups[0];
    assert_eq!(group.name, "ü".repeat(64));
    assert_eq!((group.rank, group.world, group.members.len()), (1999, 2000, 0));
}

#[test]
fn other_files_are_no_recordings() {
    for bytes in [&b""[..], b"consortR", &[0; 5000], &[0xff; 100_000]] {
        assert!(matches!(Snapshot::parse(bytes, bytes), Err(Unreadable::Other)));
    }
    let mut bytes = FILE.clone();
    bytes[8] = 99;
    let error = Snapshot::parse(&bytes, &bytes).unwrap_err();
    assert_eq!(error.to_string(), "it is of version 99, and this program reads version 2");
    let missing = Snapshot::read(std::path::Path::new("/nosuch")).unwrap_err().to_string();
    assert!(missing.starts_with("/nosuch cannot be read: "), "{missing}");
}

/// A file with two groups and a few calls.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("rank");
    let file = Recording::in_file(&path, &ABOUT).unwrap();
    let journals = [journal(&file, "one"), journal(&file, "other")];
    for (journal, number) in journals.iter().zip([3, 9]) {
        journal.begin(number, [1, 2], None);
    }
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(LENGTH);
    bytes
});
/// So much of it is looked at.
const LENGTH: usize = 4096 + 128 * SITES + 2 * (4096 + 64 * CALLS);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is in a file, reading it ends, and gives no more than a file has room for.
    #[test]
    fn damaged_files_do_no_harm(
        damage in proptest::collection::vec((0..LENGTH, any::<u8>()), 0..200),
        early in proptest::collection::vec((0_usize..600, any::<u8>()), 0..40),
        length in 0..=LENGTH,
    ) {
        let mut bytes = FILE.clone();
        for (at, value) in damage {
            bytes[at] = value;
        }
        // Not the magic and the version, or nothing more would be looked at.
        for (at, value) in early {
            bytes[16 + at] = value;
        }
        bytes.truncate(length);
        if let Ok(snapshot) = Snapshot::parse(&bytes, &bytes) {
            prop_assert!(snapshot.groups.len() <= GROUPS);
            prop_assert!(snapshot.groups.iter().all(|group| group.calls.len() <= CALLS));
            prop_assert!(snapshot.job.chars().all(|letter| !letter.is_control()));
        }
    }
}
