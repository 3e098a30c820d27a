//! Ranks that have finished, and go.

use std::fs;
use std::process;
use std::thread;
use std::time::Duration;

use consort::{Error, ErrorKind, ReduceOp};
use consort_testkit::{Case, Outcome, conformance};

use crate::meet::meet;

conformance! { [shm tcp mixed]
    what_a_rank_gave_last_is_read_after_it_has_gone
    a_rank_that_exits_without_leaving_disturbs_nobody_who_reads_its_last_word
}
conformance! { [shm tcp mixed in_process mpi]
    a_rank_that_leaves_early_is_named_by_all_others_while_it_lives
    groups_are_left_in_any_order
}

fn what_a_rank_gave_last_is_read_after_it_has_gone(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        let mut small = [if ctx.rank() == 0 { 7_u8 } else { 0 }; 5];
        let mut large = vec![if ctx.rank() == 0 { 3_u32 } else { 0 }; 20_000];
        group.barrier().unwrap();
        if ctx.rank() > 0 {
            let _: String = ctx.told("rank 0 has gone");
        }
        group.broadcast(&mut large, 0).unwrap();
        group.broadcast(&mut small, 0).unwrap();
        assert_eq!((small, large), ([7; 5], vec![3; 20_000]));
        // The next call needs the one that is gone, which ends the group: not before both have read.
        if ctx.rank() > 0 {
            let other = 3 - ctx.rank();
            group.send_recv(&[1_u8], other, &mut [0_u8], other, 0).unwrap();
            let error = group.barrier().unwrap_err();
            let Error::Left { ranks, number: 4, .. } = &error else { panic!("{error}") };
            assert_eq!(ranks, &[0]);
        }
    });
    // A process that nobody has waited for is still listed, as ended.
    let state = format!("/proc/{}/stat", job.pid(0));
    while !fs::read_to_string(&state).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(5));
    }
    job.tell("rank 0 has gone", &"yes");
    assert_eq!(job.wait(), vec![Outcome::Done(()); 3]);
}

fn a_rank_that_leaves_early_is_named_by_all_others_while_it_lives(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            drop(group);
            return world.barrier().unwrap();
        }
        let error = group.all_reduce(&mut [1_u8; 3], ReduceOp::Sum).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerGone);
        let Error::Left { ranks, by: 0 | 2, call, number: 2, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((&ranks[..], &call[..]), (&[1][..], "all_reduce(sum) of 3 u8"));
        assert_eq!(group.error().unwrap().to_string(), error.to_string());
        world.barrier().unwrap();
    });
}

fn a_rank_that_exits_without_leaving_disturbs_nobody_who_reads_its_last_word(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        let mut words = [if ctx.rank() == 0 { 9_u64 } else { 0 }; 1000];
        if ctx.rank() == 0 {
            group.broadcast(&mut words, 0).unwrap();
            process::exit(0);
        }
        thread::sleep(Duration::from_millis(300));
        group.broadcast(&mut words, 0).unwrap();
        assert_eq!(words, [9; 1000]);
    });
    assert_eq!(job.wait(), [Outcome::Exited(0), Outcome::Done(())]);
}

fn groups_are_left_in_any_order(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        for round in 0..20 {
            let group = world.split(Some(0), 0).unwrap().unwrap();
            let mut value = [if ctx.rank() == 0 { round } else { 0 }; 300];
            // Rank 0 has left, and may make the next group, before the others read.
            if ctx.rank() == 1 {
                thread::sleep(Duration::from_millis(5));
            }
            group.broadcast(&mut value, 0).unwrap();
            assert_eq!(value, [round; 300]);
        }
    });
}
