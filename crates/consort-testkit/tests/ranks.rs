//! Ranks are real processes, and what happens to them is told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use consort_testkit::{Context, Job, Outcome, Ranks, ranks};

#[test]
fn every_rank_is_a_process_of_its_own_and_results_come_in_rank_order() {
    let found = ranks(4, |ctx| (ctx.rank(), ctx.world(), process::id()));
    for (rank, (own, world, pid)) in (0..).zip(&found) {
        assert_eq!((*own, *world), (rank, 4));
        assert_ne!(*pid, process::id());
    }
    let mut pids: Vec<u32> = found.iter().map(|(.., pid)| *pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 4);
}

mod inner {
    #[test]
    fn a_test_in_a_module_is_found() {
        assert_eq!(consort_testkit::ranks(2, |ctx| ctx.rank() * 10), [0, 10]);
    }
}

#[test]
fn a_function_may_start_ranks_for_a_test() {
    let found = start_for_a_test(|ctx| ctx.rank() + 1).expect_all();
    assert_eq!(found, [1, 2]);
}

fn start_for_a_test<F: Fn(&Context) -> u32>(body: F) -> Job<u32> {
    Ranks::new(2).named_after(&body).start(|ctx| body(ctx))
}

#[test]
fn results_keep_every_bit() {
    let values = vec![f32::NAN, -0.0, f32::MIN_POSITIVE / 2.0, 0.1];
    let expected: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
    for found in ranks(2, |_| values.clone()) {
        assert_eq!(found.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn ranks_share_a_directory_an_environment_and_what_they_are_told() {
    let job = Ranks::new(3).env("SHARED_WORD", "wren").start(|ctx| {
        let secret: String = ctx.told("the secret");
        fs::write(ctx.dir().join(format!("from-{}", ctx.rank())), &secret).unwrap();
        env::var("SHARED_WORD").unwrap()
    });
    let dir = job.dir();
    job.tell("the secret", &"hush");
    let mut job = job;
    assert_eq!(job.wait(), vec![Outcome::Done("wren".to_owned()); 3]);
    for rank in 0..3 {
        assert_eq!(fs::read_to_string(dir.join(format!("from-{rank}"))).unwrap(), "hush");
    }
    drop(job);
    assert!(!dir.exists());
}

#[test]
fn a_panic_is_reported_with_its_words_and_the_output_of_every_rank() {
    let job = Ranks::new(3).start(|ctx| {
        println!("out of rank {}", ctx.rank());
        eprintln!("err of rank {}", ctx.rank());
        assert_ne!(ctx.rank(), 1, "rank one dislikes this");
    });
    let words = panic_of(|| job.expect_all());
    assert!(words.contains("rank 1 panicked"), "{words}");
    assert!(words.contains("rank one dislikes this"), "{words}");
    for rank in 0..3 {
        assert!(words.contains(&format!("out of rank {rank}")), "{words}");
        assert!(words.contains(&format!("err of rank {rank}")), "{words}");
    }
}

#[test]
fn each_end_of_a_rank_is_told_from_the_others() {
    let mut job = Ranks::new(4).start(|ctx| match ctx.rank() {
        0 => "fine".to_owned(),
        1 => panic!("boom"),
        2 => process::exit(7),
        _ => process::abort(),
    });
    let outcomes = job.wait();
    assert_eq!(outcomes[0], Outcome::Done("fine".to_owned()));
    assert_eq!(outcomes[1], Outcome::Panicked("boom".to_owned()));
    assert_eq!(outcomes[2], Outcome::Exited(7));
    assert_eq!(outcomes[3], Outcome::Signalled(6));
}

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
fn waiting_for_a_point_ends_when_the_rank_does() {
    let mut job = Ranks::new(1).start(|_| println!("not today"));
    let words = panic_of(|| job.await_point(0, "nowhere"));
    assert!(words.contains("ended before it came to \"nowhere\""), "{words}");
    assert!(words.contains("not today"), "{words}");
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

#[test]
fn a_test_starts_ranks_once() {
    let body = |ctx: &Context| ctx.rank();
    assert_eq!(ranks(1, body), [0]);
    let words = panic_of(|| ranks(1, body));
    assert!(words.contains("has started ranks before"), "{words}");
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

fn panic_of<T>(body: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => match payload.downcast::<String>() {
            Ok(words) => *words,
            Err(payload) => (*payload.downcast::<&str>().expect("words")).to_owned(),
        },
    }
}
