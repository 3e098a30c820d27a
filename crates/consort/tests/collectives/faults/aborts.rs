//! Groups that are given up.

use std::time::{Duration, Instant};

use consort::Error;
use consort_testkit::{Case, conformance};

use crate::meet::meet;
use crate::works::works;

conformance! { [shm tcp mixed in_process mpi]
    a_group_that_a_rank_gives_up_ends_for_all_who_wait_in_it
    a_rank_that_need_not_wait_hears_of_a_group_that_was_given_up
}

fn a_group_that_a_rank_gives_up_ends_for_all_who_wait_in_it(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        let start = Instant::now();
        if ctx.rank() == 1 {
            // Long enough for the others to fall asleep.
            std::thread::sleep(Duration::from_millis(200));
            group.abort("the data has run out");
        }
        for _ in 0..2 {
            let error = group.barrier().unwrap_err();
            let Error::Aborted { by, reason, .. } = &error else { panic!("{error}") };
            assert_eq!((*by, reason.as_str()), (1, "the data has run out"));
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        // Another group is not concerned.
        works(&world);
    });
}

fn a_rank_that_need_not_wait_hears_of_a_group_that_was_given_up(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        if ctx.rank() == 1 {
            group.abort("the data has run out");
        }
        world.barrier().unwrap();
        // A root would not look at the others.
        let error = group.broadcast(&mut [1_u8; 4], ctx.rank()).unwrap_err();
        assert!(
            error.to_string().ends_with("rank 1 has ended it: the data has run out"),
            "{error}"
        );
    });
}
