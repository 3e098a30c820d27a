//! Barriers that name all who do not come.

use std::thread;
use std::time::Duration;

use consort::{Error, ErrorKind};
use consort_testkit::{Case, Outcome, conformance};

use super::meet::{meet, works};

conformance! { [in_process shm tcp mixed] a_monitored_barrier_holds_everyone_up_until_all_have_come }

fn a_monitored_barrier_holds_everyone_up_until_all_have_come(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let store = group.store();
        for round in 0..5 {
            // The last one to come differs.
            if ctx.rank() == round % 4 {
                thread::sleep(Duration::from_millis(50));
            }
            store.add(&format!("came {round}"), 1).unwrap();
            group.monitored_barrier().unwrap();
            assert_eq!(store.add(&format!("came {round}"), 0).unwrap(), 4);
        }
        works(&group);
    });
}

conformance! { [in_process shm tcp mixed] nobody_comes_through_a_monitored_barrier_of_a_group_that_has_ended }

fn nobody_comes_through_a_monitored_barrier_of_a_group_that_has_ended(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            group.abort("enough");
        }
        while group.error().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        // The last to come finds that all have.
        thread::sleep(Duration::from_millis(50) * ctx.rank());
        for _ in 0..2 {
            let error = group.monitored_barrier().unwrap_err();
            assert!(matches!(&error, Error::Aborted { by: 0, .. }), "{error}");
        }
    });
}

conformance! { [shm tcp mixed] all_who_do_not_come_are_named_on_every_rank }

fn all_who_do_not_come_are_named_on_every_rank(case: Case) {
    let mut job = case.of(5).start(|ctx| {
        let group = meet(ctx);
        ctx.reach("met");
        if ctx.rank() == 1 || ctx.rank() == 3 {
            while !ctx.has_been_told("enough") {
                thread::sleep(Duration::from_millis(10));
            }
            let error = group.barrier().unwrap_err();
            assert!(error.to_string().contains("for ranks [1, 3]"), "{error}");
            return Vec::new();
        }
        let error = group.within(Duration::from_secs(1)).monitored_barrier().unwrap_err();
        let Error::Late { missing, .. } = error else { panic!("{error}") };
        ctx.reach("late");
        missing
    });
    [0, 2, 4].iter().for_each(|&rank| job.await_point(rank, "late"));
    job.tell("enough", &());
    let missing = job.expect_all();
    assert_eq!(missing, [vec![1, 3], vec![], vec![1, 3], vec![], vec![1, 3]]);
}

conformance! { [shm tcp mixed] a_rank_that_dies_is_named_by_a_monitored_barrier_long_before_its_time }

fn a_rank_that_dies_is_named_by_a_monitored_barrier_long_before_its_time(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        works(&group);
        ctx.reach("met");
        if ctx.rank() == 2 {
            thread::sleep(Duration::from_secs(100));
        }
        let error = group.monitored_barrier().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "met"));
    job.kill(2);
    for (rank, outcome) in job.wait().into_iter().enumerate() {
        match outcome {
            Outcome::Signalled(9) => assert_eq!(rank, 2),
            Outcome::Done(error) => {
                assert!(error.contains("rank 2 is gone"), "rank {rank}: {error}");
            }
            other => panic!("rank {rank}: {other:?}"),
        }
    }
}
