//! A store in a file, used by several processes, some of which end badly.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Error, FileStore, Store};
use consort_testkit::{Outcome, Ranks, ranks};

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(40))
}

#[test]
fn processes_count_meet_and_share_work() {
    let world = 4;
    let results = ranks(world, |ctx| {
        let store = FileStore::open(ctx.dir().join("store")).unwrap();
        let counted: Vec<i64> = (0..50).map(|_| store.add("counter", 1).unwrap()).collect();
        for piece in 0..25_u8 {
            store.push("work", &[ctx.rank() as u8, piece]).unwrap();
        }
        for _ in 0..10 {
            store.barrier("all", ctx.rank(), ctx.world(), soon()).unwrap();
        }
        let mut taken = Vec::new();
        while let Ok(piece) = store.pop("work", Deadline::now()) {
            taken.push(piece);
        }
        store.barrier("done", ctx.rank(), ctx.world(), soon()).unwrap();
        (counted, taken)
    });
    let (counted, taken): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let mut counted = counted.concat();
    counted.sort_unstable();
    assert_eq!(counted, (1..=200).collect::<Vec<i64>>());
    let mut taken = taken.concat();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 25 * world as usize);
}

#[test]
fn the_data_of_a_killed_job_is_gone_for_the_next() {
    let mut job = Ranks::new(2).start(|ctx| {
        let store = FileStore::open(ctx.dir().join("store")).unwrap();
        store.add("alive", 1).unwrap();
        ctx.reach("written");
        let _: () = ctx.told("nothing");
    });
    job.await_point(0, "written");
    job.await_point(1, "written");
    let path = job.dir().join("store");

    job.kill(0);
    let store = FileStore::open(&path).unwrap();
    assert_eq!(store.add("alive", 0).unwrap(), 2, "one who used it is alive");
    drop(store);

    job.kill(1);
    assert!(path.exists());
    let store = FileStore::open(&path).unwrap();
    assert_eq!(store.num_keys().unwrap(), 0);
    drop(store);
    assert!(!path.exists());
}

#[test]
fn openers_that_race_with_the_last_one_out_always_find_a_store() {
    let mut job = Ranks::new(3).start(|ctx| {
        let path = ctx.dir().join("store");
        let mut found_empty = 0;
        for _ in 0..300 {
            let store = FileStore::open(&path).unwrap();
            let first = store.add("counter", 1).unwrap();
            let second = store.add("counter", 1).unwrap();
            assert!(second > first, "the store was started anew while it was open");
            found_empty += u32::from(first == 1);
        }
        found_empty
    });
    let outcomes = job.wait();
    let lives: u32 = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Done(lives) => lives,
            other => panic!("{other:?}"),
        })
        .sum();
    assert!(lives > 1, "nobody was ever the last one out");
    assert_eq!(fs::read_dir(job.dir()).unwrap().count(), 0);
}

#[test]
fn openers_and_closers_killed_at_any_moment_leave_what_can_be_opened() {
    let victims = 16;
    let mut job = Ranks::new(victims).start(|ctx| {
        let _: () = ctx.told(&format!("go {}", ctx.rank()));
        ctx.reach("coming and going");
        loop {
            FileStore::open(ctx.dir().join("store")).unwrap().set("key", b"").unwrap();
        }
    });
    let path = job.dir().join("store");
    for victim in 0..victims {
        job.tell(&format!("go {victim}"), &());
        job.await_point(victim, "coming and going");
        thread::sleep(Duration::from_micros(u64::from(victim) * 317));
        job.kill(victim);
        let store = FileStore::open(&path).unwrap();
        assert_eq!(store.num_keys().unwrap(), 0);
        drop(store);
        assert!(!path.exists());
    }
    assert!(job.wait().iter().all(|outcome: &Outcome<()>| *outcome == Outcome::Signalled(9)));
}

#[test]
fn writers_killed_at_any_moment_harm_nobody() {
    let victims = 16;
    let mut job = Ranks::new(2 + victims).start(|ctx| {
        let store = FileStore::open(ctx.dir().join("store")).unwrap();
        if ctx.rank() >= 2 {
            let _: () = ctx.told(&format!("go {}", ctx.rank()));
            return write_until_killed(&store, || ctx.reach("writing"));
        }
        let mut added = 0;
        while !store.check(&["end"]).unwrap() {
            store.add("added", 1).unwrap();
            added += 1;
            if let Ok(value) = store.get("large", Deadline::now()) {
                assert!(value.iter().all(|byte| *byte == value[0]), "a value is torn");
            }
            thread::sleep(Duration::from_millis(2));
        }
        added
    });
    let store = FileStore::open(job.dir().join("store")).unwrap();
    for victim in 2..2 + victims {
        job.tell(&format!("go {victim}"), &());
        job.await_point(victim, "writing");
        thread::sleep(Duration::from_millis(u64::from(victim * 7 % 20)));
        job.kill(victim);
    }
    store.set("end", b"").unwrap();
    let added: i64 = job
        .wait()
        .into_iter()
        .filter_map(|outcome| match outcome {
            Outcome::Done(added) => Some(added),
            Outcome::Signalled(9) => None,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(store.add("added", 0).unwrap(), added);
}

/// Large values, so that much of the time goes into writing.
fn write_until_killed(store: &FileStore, mut writing: impl FnMut()) -> i64 {
    for round in 0_u8..=255 {
        store.set("large", &vec![round; 8 << 20]).unwrap();
        if round == 0 {
            writing();
        }
    }
    panic!("nobody killed this process");
}

#[test]
fn a_stopped_process_that_holds_the_lock_is_a_clear_error() {
    let mut job = Ranks::new(1).start(|ctx| {
        let path = ctx.dir().join("store");
        let store = FileStore::open(&path).unwrap();
        ctx.reach("open");
        let _: () = ctx.told("lock");
        let file = File::open(&path).unwrap();
        file.lock().unwrap();
        ctx.reach("locked");
        let _: () = ctx.told("unlock");
        drop(file);
        store.set("late", b"value").unwrap();
    });
    let path = job.dir().join("store");
    let patience = Duration::from_millis(300);
    job.await_point(0, "open");
    let store = FileStore::open_with(&path, patience).unwrap();
    job.tell("lock", &());
    job.await_point(0, "locked");
    job.stop(0);

    assert_names_the_lock(&FileStore::open_with(&path, patience).unwrap_err(), &path);
    assert_names_the_lock(&store.set("key", b"").unwrap_err(), &path);
    assert_names_the_lock(&store.get("late", Deadline::never()).unwrap_err(), &path);
    assert_names_the_lock(&store.check(&["late"]).unwrap_err(), &path);

    job.cont(0);
    job.tell("unlock", &());
    assert_eq!(store.get("late", soon()).unwrap(), b"value");
    assert_eq!(store.num_keys().unwrap(), 1);
    job.expect_all();
}

fn assert_names_the_lock(error: &Error, path: &Path) {
    let said = error.to_string();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(said.contains(&format!("the lock on {}", path.display())), "{said}");
    assert!(said.contains("stopped"), "{said}");
}
