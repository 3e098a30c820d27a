//! What is done to ranks happens, and nothing is left of them.

mod panics;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use consort_testkit::{Outcome, Ranks};

use self::panics::panic_of;

#[test]
fn a_rank_is_killed_at_a_known_point() {
    let mut job = Ranks::new(2).start(|ctx| {
        ctx.reach("the point");
        if ctx.rank() == 1 {
            sleep_for_ever();
        }
    });
    job.await_point(1, "the point");
    job.kill(1);
    assert!(!is_alive(job.pid(1)));
    assert_eq!(job.wait(), [Outcome::Done(()), Outcome::Signalled(9)]);
}

#[test]
fn killing_a_rank_that_has_ended_fails_the_test() {
    let mut job = Ranks::new(1).start(|_| ());
    job.wait();
    let words = panic_of(|| job.kill(0));
    assert!(words.contains("had ended before"), "{words}");
}

#[test]
fn a_stopped_rank_stands_still_until_it_continues() {
    let mut job = Ranks::new(1).start(|ctx| {
        let file = ctx.dir().join("count");
        for count in 0_u64.. {
            fs::write(&file, count.to_string()).unwrap();
            ctx.reach("counting");
            if ctx.dir().join("enough").exists() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    job.await_point(0, "counting");
    let count = job.dir().join("count");

    job.stop(0);
    let at_stop = fs::read(&count).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(fs::read(&count).unwrap(), at_stop);

    job.cont(0);
    let moved = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(5));
        let now = fs::read(&count).unwrap();
        !now.is_empty() && now != at_stop
    });
    assert!(moved);
    fs::write(job.dir().join("enough"), b"").unwrap();
    job.expect_all();
}

#[test]
fn a_rank_that_was_not_stopped_cannot_continue() {
    let mut job = Ranks::new(1).start(|ctx| {
        ctx.reach("asleep");
        sleep_for_ever();
    });
    job.await_point(0, "asleep");
    let words = panic_of(|| job.cont(0));
    assert!(words.contains("was not stopped"), "{words}");
}

#[test]
fn the_limit_kills_all_ranks_and_shows_what_they_wrote() {
    let limit = Duration::from_secs(2);
    let mut job = Ranks::new(2).limit(limit).start(|ctx| {
        println!("rank {} will never end", ctx.rank());
        ctx.reach("said");
        sleep_for_ever();
    });
    job.await_point(0, "said");
    job.await_point(1, "said");
    job.stop(1);
    let pids = [job.pid(0), job.pid(1)];
    let started = Instant::now();
    let words = panic_of(|| job.wait());
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(words.contains("did not end within 2s"), "{words}");
    assert!(words.contains("rank 0 will never end"), "{words}");
    assert!(words.contains("rank 1 will never end"), "{words}");
    assert!(!pids.into_iter().any(is_alive));
}

#[test]
fn dropping_a_job_leaves_nothing() {
    let mut job = Ranks::new(2).start(|ctx| {
        let script = format!("sleep 600 & echo -n $! > child-{}", ctx.rank());
        Command::new("sh").args(["-c", &script]).current_dir(ctx.dir()).status().unwrap();
        ctx.reach("running");
        sleep_for_ever();
    });
    let mut pids = Vec::new();
    for rank in 0..2 {
        job.await_point(rank, "running");
        pids.push(job.pid(rank));
        pids.push(read_pid(&job.dir().join(format!("child-{rank}"))));
    }
    assert!(pids.iter().copied().all(is_alive));
    let dir = job.dir();
    drop(job);
    // The ranks' own children are reaped by init, in its time.
    assert!(is_true_soon(|| !pids.iter().copied().any(is_alive)));
    assert!(!dir.exists());
}

/// The test runs itself once more; that second process starts ranks and is killed.
#[test]
fn ranks_die_with_the_process_that_started_them() {
    if env::var_os("DOOMED").is_some() {
        let mut job = Ranks::new(2).start(|_| sleep_for_ever());
        job.wait();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut doomed = Command::new(env::current_exe().unwrap())
        .args(["ranks_die_with_the_process_that_started_them", "--exact", "--nocapture"])
        .env("DOOMED", "1")
        .env("TMPDIR", dir.path())
        .stdout(process::Stdio::null())
        .spawn()
        .unwrap();
    let mut orphans = Vec::new();
    assert!(is_true_soon(|| {
        orphans = children_of(doomed.id());
        count_begun(dir.path()) == 2
    }));
    assert_eq!(orphans.len(), 2);
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    assert!(is_true_soon(|| !orphans.iter().copied().any(is_alive)));
}

/// How many ranks have come as far as their closure, by the notes they leave.
fn count_begun(temporary: &Path) -> usize {
    let jobs = fs::read_dir(temporary).into_iter().flatten().flatten();
    let notes = jobs.filter_map(|job| fs::read_dir(job.path()).ok()).flatten().flatten();
    notes.filter(|note| note.path().extension().is_some_and(|kind| kind == "begun")).count()
}

fn children_of(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().flat_map(str::parse::<u32>));
    }
    found
}

fn read_pid(path: &Path) -> u32 {
    fs::read_to_string(path).expect("written").parse().expect("a number")
}

/// Whether a process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn is_true_soon(mut condition: impl FnMut() -> bool) -> bool {
    (0..2000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        condition()
    })
}

fn sleep_for_ever() {
    thread::sleep(Duration::from_secs(600));
}
