//! Ranks that die, and hooks that fail.

use consort::{ErrorKind, ReduceOp};
use consort_testkit::{Case, Outcome, conformance};
use consort_train::{Bucket, CommHook, Error, Options, Pending, Round};

use super::model::{begin_to_fail, fail, give, meet, reducer, step};

conformance! { [shm tcp mixed]
    the_survivors_of_a_rank_that_dies_in_backward_go_on_with_a_smaller_group
}
conformance! { [shm tcp mixed in_process]
    a_newcomer_and_those_who_were_there_go_on_together
    a_hook_that_fails_on_one_rank_is_named_on_all
    a_pass_that_is_dropped_half_way_is_named_on_all
}

fn the_survivors_of_a_rank_that_dies_in_backward_go_on_with_a_smaller_group(case: Case) {
    let outcomes = case
        .of(3)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = reducer(&group, Options::new());
            step(&group, &reducer);
            let pass = begin_to_fail(&group, &reducer, ctx.rank() == 1);
            if ctx.rank() == 1 {
                give(&group, &reducer, &pass, (10..20).rev());
                std::process::abort();
            }
            let error = fail(&reducer, pass, (0..20).rev());
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            assert!(matches!(reducer.begin(), Err(Error::Failed { .. })));
            let smaller = group.shrink().unwrap();
            reducer.set_group(&smaller).unwrap();
            for _ in 0..3 {
                step(&smaller, &reducer);
            }
            (error.to_string(), smaller.world())
        })
        .wait();
    let mut told = Vec::new();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Done((text, world)) => {
                assert_eq!(world, 2);
                told.push(text);
            }
            other => assert_eq!(rank, 1, "{other:?}"),
        }
    }
    assert!(told.len() == 2 && told[0] == told[1], "{told:?}");
    assert!(told[0].contains("rank 1 is gone"), "{told:?}");
}

/// One who comes later makes a reducer, while those who were there give theirs another group.
fn a_newcomer_and_those_who_were_there_go_on_together(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let is_new = ctx.rank() == 2;
        let part = world.split(Some(u32::from(is_new)), 0).unwrap().unwrap();
        let mut mine = reducer(&part, Options::new());
        (0..2).for_each(|_| step(&part, &mine));
        if is_new {
            mine = reducer(&world, Options::new());
        } else {
            mine.set_group(&world).unwrap();
        }
        // Passes are counted by each, and their numbers are part of the data.
        let number = mine.begin().unwrap().number();
        let mut last = [number];
        world.all_reduce(&mut last, ReduceOp::Max).unwrap();
        (number..last[0]).for_each(|_| drop(mine.begin().unwrap()));
        (0..3).for_each(|_| step(&world, &mine));
    });
}

/// Fails with the second bucket of a pass on rank 1.
struct Fragile {
    rank: u32,
    pass: u64,
}

impl CommHook for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        if (self.rank, self.pass, bucket.index()) == (1, round.pass, 1) {
            return Err(Error::Argument("it is worn out".to_owned()));
        }
        round.average(bucket)
    }
}

fn a_hook_that_fails_on_one_rank_is_named_on_all(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let hook = Fragile { rank: ctx.rank(), pass: 3 };
        let reducer = reducer(&group, Options::new().hook(hook));
        (0..2).for_each(|_| step(&group, &reducer));
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 1);
        let error = fail(&reducer, pass, (0..20).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        error.to_string()
    });
    for text in told {
        assert!(text.contains("fragile") && text.contains("bucket 1: it is worn out"), "{text}");
    }
}

fn a_pass_that_is_dropped_half_way_is_named_on_all(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        (0..2).for_each(|_| step(&group, &reducer));
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 0);
        if ctx.rank() == 0 {
            give(&group, &reducer, &pass, (5..20).rev());
            drop(pass);
            let error = reducer.begin().unwrap_err();
            assert!(matches!(error, Error::Failed { .. }), "{error}");
            return error.to_string();
        }
        let error = fail(&reducer, pass, (0..20).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        error.to_string()
    });
    assert!(told.iter().all(|text| text.contains("pass 3 was dropped before its end")), "{told:?}");
}
