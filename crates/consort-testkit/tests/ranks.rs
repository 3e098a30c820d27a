//! Ranks are real processes, and what happens to them is told.

mod panics;

use std::{env, fs, process};

use consort_testkit::{Case, Context, Job, Kind, Outcome, Ranks, conformance, ranks};

use self::panics::panic_of;

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

conformance! { [shm tcp mixed in_process]
    ranks_of_every_kind_know_who_they_are
    ranks_of_every_kind_panic_alone
}

fn ranks_of_every_kind_know_who_they_are(case: Case) {
    let job = case.of(3).start(|ctx| {
        let hosts = (ctx.address_of(0), ctx.address_of(1), ctx.address_of(2));
        match ctx.kind() {
            Kind::Mixed => assert!(hosts.0 == hosts.1 && hosts.1 != hosts.2),
            _ => assert_eq!(hosts, (None, None, None)),
        }
        ctx.reach("here");
        let together: bool = ctx.told("in one process");
        assert_eq!(together, ctx.kind() == Kind::InProcess);
        (ctx.rank(), ctx.world())
    });
    job.tell("in one process", &(job.pid(0) == job.pid(2)));
    assert_eq!(job.expect_all(), [(0, 3), (1, 3), (2, 3)]);
}

fn ranks_of_every_kind_panic_alone(case: Case) {
    let mut job = case.of(2).start(|ctx| assert!(ctx.rank() == 0, "on purpose"));
    assert_eq!(job.wait(), [Outcome::Done(()), Outcome::Panicked("on purpose".to_owned())]);
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

fn start_for_a_test<F: Fn(&Context) -> u32 + Sync>(body: F) -> Job<u32> {
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
fn waiting_for_a_point_ends_when_the_rank_does() {
    let mut job = Ranks::new(1).start(|_| println!("not today"));
    let words = panic_of(|| job.await_point(0, "nowhere"));
    assert!(words.contains("ended before it came to \"nowhere\""), "{words}");
    assert!(words.contains("not today"), "{words}");
}

#[test]
fn a_test_starts_ranks_once() {
    let body = |ctx: &Context| ctx.rank();
    assert_eq!(ranks(1, body), [0]);
    let words = panic_of(|| ranks(1, body));
    assert!(words.contains("has started ranks before"), "{words}");
}
