//! Signals, barriers, deadlines.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, ReduceOp};
use consort_testkit::ranks;

use super::meet;

#[test]
fn thousands_of_messages_go_there_and_back() {
    ranks(2, |ctx| {
        let memory = meet(ctx).symmetric::<u64>(2).unwrap();
        let peer = 1 - ctx.rank();
        for round in 0..5_000 {
            if ctx.rank() == 0 {
                memory.put_with_signal(peer, 0, &[round, !round], 0).unwrap();
                memory.wait_signal(peer, 0).unwrap();
                assert_eq!(memory.local().unwrap()[..], [round + 1, round]);
            } else {
                memory.wait_signal(peer, 0).unwrap();
                let [one, other] = memory.local().unwrap()[..] else { unreachable!() };
                assert_eq!([one, other], [round, !round]);
                memory.put_with_signal(peer, 0, &[one + 1, one], 0).unwrap();
            }
        }
    });
}

#[test]
fn a_token_goes_round_more_ranks_than_there_are_cores() {
    let seen = ranks(8, |ctx| {
        let memory = meet(ctx).symmetric::<u64>(1).unwrap();
        let (me, world) = (ctx.rank(), ctx.world());
        for round in 0..100 {
            if me > 0 || round > 0 {
                memory.wait_signal((me + world - 1) % world, 5).unwrap();
            }
            let token = memory.local().unwrap()[0] + 1;
            memory.put_with_signal((me + 1) % world, 0, &[token], 5).unwrap();
        }
        memory.barrier(0).unwrap();
        memory.local().unwrap()[0]
    });
    assert_eq!(seen[0], 800);
}

/// Four threads of each rank talk on a channel each, and the group goes on with its own calls.
#[test]
fn channels_and_calls_are_independent() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(4).unwrap();
        let peer = 1 - ctx.rank();
        thread::scope(|scope| {
            for channel in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for round in 1..=300 {
                        let mine = [round * 10 + channel as u32];
                        memory.put_with_signal(peer, channel, &mine, channel).unwrap();
                        memory.wait_signal(peer, channel).unwrap();
                        let mut theirs = [0];
                        memory.get(ctx.rank(), channel, &mut theirs).unwrap();
                        assert_eq!(theirs, mine);
                        memory.barrier(channel).unwrap();
                    }
                });
            }
            for round in 0..300_i64 {
                let mut sum = [round];
                group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
                assert_eq!(sum, [2 * round]);
            }
        });
    });
}

#[test]
fn signals_are_counted_and_none_is_lost() {
    ranks(3, |ctx| {
        let memory = meet(ctx).symmetric::<u8>(0).unwrap();
        assert!(memory.is_empty());
        for to in 0..3 {
            for _ in 0..=to {
                memory.put_signal(to, 7).unwrap();
            }
        }
        memory.barrier(7).unwrap();
        for from in 0..3 {
            assert_eq!(memory.signals(from, 7).unwrap(), ctx.rank() + 1);
            for _ in 0..=ctx.rank() {
                memory.wait_signal(from, 7).unwrap();
            }
            assert_eq!(memory.signals(from, 7).unwrap(), 0);
        }
    });
}

#[test]
fn a_wait_for_a_signal_that_was_given_up_can_be_made_again() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u8>(1).unwrap();
        if ctx.rank() == 0 {
            let began = Instant::now();
            let error = memory.within(SHORT).wait_signal(1, 3).unwrap_err();
            assert!(began.elapsed() >= SHORT);
            assert_eq!(error.kind(), ErrorKind::Deadline);
            let Error::Late { missing, call, .. } = &error else { panic!("{error}") };
            assert_eq!(
                (&missing[..], &call[..]),
                (&[1][..], "wait_signal on channel 3 of symmetric memory 1")
            );
            assert!(!error.to_string().contains("call 0"), "{error}");
            memory.put_signal(1, 0).unwrap();
            memory.wait_signal(1, 3).unwrap();
        } else {
            memory.wait_signal(0, 0).unwrap();
            memory.put_signal(0, 3).unwrap();
        }
        group.barrier().unwrap();
    });
}

#[test]
fn a_wait_for_a_window_names_who_holds_it_and_can_be_made_again() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u8>(1).unwrap();
        let held = (ctx.rank() == 2).then(|| memory.peer(1).unwrap());
        memory.barrier(0).unwrap();
        if ctx.rank() < 2 {
            let short = memory.within(SHORT);
            let errors = [
                short.peer(1).unwrap_err(),
                short.put(1, 0, &[1]).unwrap_err(),
                short.raw(1).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Deadline);
                let Error::Held { holders, .. } = &error else { panic!("{error}") };
                assert_eq!(holders[..], [2]);
                let words =
                    "a wait for the window of rank 1 of symmetric memory 1, which ranks [2]";
                assert!(error.to_string().contains(words), "{error}");
            }
        }
        memory.barrier(0).unwrap();
        drop(held);
        memory.peer(1).unwrap()[0] += 1;
        group.barrier().unwrap();
        // A copy keeps slices out as well.
        let held = (ctx.rank() == 2).then(|| memory.raw(1).unwrap());
        memory.barrier(0).unwrap();
        if ctx.rank() < 2 {
            let error = memory.within(SHORT).peer(1).unwrap_err();
            // The other of the two may have come to its copy, which is a hold as well.
            let is_told = |holders: &[u32]| holders.contains(&2);
            assert!(matches!(&error, Error::Held { holders, .. } if is_told(holders)), "{error}");
            memory.put(1, 0, &[3]).unwrap();
        }
        memory.barrier(0).unwrap();
        drop(held);
        assert_eq!(memory.peer(1).unwrap()[0], 3);
        group.barrier().unwrap();
    });
}

#[test]
fn a_barrier_that_is_given_up_ends_the_group_and_names_who_is_missing() {
    let errors = ranks(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u8>(1).unwrap();
        let error = match ctx.rank() {
            0 => memory.within(SHORT).barrier(1).unwrap_err(),
            1 => memory.wait_signal(0, 0).unwrap_err(),
            _ => group.barrier().unwrap_err(),
        };
        error.to_string()
    });
    assert!(errors[0].starts_with("group world: rank 0 waited "), "{errors:?}");
    assert!(errors[0].contains("barrier on channel 1 of symmetric memory 1"), "{errors:?}");
    assert!(errors.iter().all(|error| error == &errors[0]), "{errors:?}");
    assert!(errors[0].contains("for ranks [1, 2], which are alive"), "{}", errors[0]);
}

/// Long enough for others to come, if they came.
const SHORT: Duration = Duration::from_millis(150);
