//! Calls that are carried out together, and several ranks in one process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use consort::nccl::{Bootstrap, Comm, Config, Error, Stream, cached, forget, group, simulate};
use consort::{Dtype, ReduceOp, Source, Target};
use consort_testkit::ranks;

use crate::ends::{add, sum};
use crate::meet::{comm, library};

#[test]
fn one_thread_has_several_ranks() {
    ranks(1, |_| {
        let comms = Comm::init_all(library(), &[0, 1, 2]).unwrap();
        assert_eq!(comms.iter().map(Comm::rank).collect::<Vec<_>>(), [0, 1, 2]);
        for round in 0..5_i64 {
            let mut sums: Vec<[u8; 8]> =
                (0..3).map(|rank| (round + rank * 100).to_ne_bytes()).collect();
            group(library(), || {
                comms.iter().zip(&mut sums).try_for_each(|(comm, sum)| {
                    let target = Target::from(&mut sum[..]);
                    // SAFETY: they are left alone until the group has ended; all ranks make the same call.
                    unsafe {
                        comm.all_reduce(
                            target.into(),
                            target,
                            Dtype::I64,
                            ReduceOp::Sum,
                            Stream::DEFAULT,
                        )
                    }
                })
            })
            .unwrap();
            assert_eq!(sums, vec![(round * 3 + 300).to_ne_bytes(); 3]);
        }
        comms.into_iter().for_each(|comm| comm.destroy().unwrap());
    });
}

#[test]
fn threads_of_one_process_are_ranks() {
    ranks(1, |_| {
        let bootstrap = Bootstrap::new(library()).unwrap();
        thread::scope(|scope| {
            for rank in 0..4 {
                let id = bootstrap.id();
                scope.spawn(move || {
                    let comm = Comm::init_rank(library(), 4, id, rank).unwrap();
                    let mut bytes = (1_u32 << rank).to_ne_bytes();
                    let target = Target::from(&mut bytes[..]);
                    // SAFETY: the default stream is done when the call returns; all ranks make the same call.
                    unsafe {
                        comm.all_reduce(
                            target.into(),
                            target,
                            Dtype::U32,
                            ReduceOp::Sum,
                            Stream::DEFAULT,
                        )
                    }
                    .unwrap();
                    assert_eq!(u32::from_ne_bytes(bytes), 15);
                    comm.destroy().unwrap();
                });
            }
        });
    });
}

#[test]
fn threads_that_share_a_communicator_take_turns() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(sum(&comm).unwrap(), 2)));
            }
        });
        comm.destroy().unwrap();
    });
}

#[test]
fn groups_within_groups_are_part_of_the_outermost() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let peer = 1 - ctx.rank();
        let (out, mut into) = ([ctx.rank() as u8 + 7], [0]);
        group(comm.library(), || {
            group(comm.library(), || {
                // SAFETY: they are left alone until the outermost has ended; the other rank does the same. So below.
                unsafe { comm.send((&out[..]).into(), Dtype::U8, peer, Stream::DEFAULT) }
            })?;
            // Were the inner group carried out by itself, both ranks would wait there for the other's `recv`, if it
            // were not that small; the order is what counts.
            group(comm.library(), || {
                // SAFETY: as above.
                unsafe { comm.recv((&mut into[..]).into(), Dtype::U8, peer, Stream::DEFAULT) }
            })
        })
        .unwrap();
        assert_eq!(into, [peer as u8 + 7]);
        comm.destroy().unwrap();
    });
}

#[test]
fn a_group_ends_though_its_body_fails_or_panics() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let failed: Result<(), _> = group(comm.library(), || no_such_rank(&comm));
        assert!(matches!(failed, Err(Error::Argument { .. })), "{failed:?}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            group(comm.library(), || -> consort::nccl::Result<()> { panic!("in the middle") })
        }));
        assert!(panicked.is_err());
        // Nothing is left open: this would wait for the end of a group otherwise.
        let mut bytes = [1_u8];
        let target = Target::from(&mut bytes[..]);
        // SAFETY: the default stream is done when the call returns; all ranks make the same call.
        unsafe {
            comm.all_reduce(target.into(), target, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT)
        }
        .unwrap();
        assert_eq!(bytes, [2]);
        comm.destroy().unwrap();
    });
}

#[test]
fn what_cannot_be_part_of_a_group_is_refused_in_one() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        let library = comm.library();
        let bootstrap = Bootstrap::new(library).unwrap();
        group(library, || {
            for refused in [
                comm.abort(),
                comm.finalize(),
                comm.split(Some(0), 0, None).map(drop),
                Comm::init_rank(library, 1, bootstrap.id(), 0).map(drop),
                Comm::init_all(library, &[0]).map(drop),
                simulate(library, || Ok(())).map(drop),
            ] {
                let error = refused.unwrap_err();
                assert!(error.to_string().contains("a group is open on this thread"), "{error}");
            }
            Ok(())
        })
        .unwrap();
        bootstrap.release();
        comm.destroy().unwrap();
    });
}

#[test]
fn blocking_and_other_communicators_are_not_mixed() {
    ranks(1, |ctx| {
        let patient = comm(ctx);
        let blocking = crate::meet::comm_with(ctx, "blocking", &Config::new().blocking(true));
        let (mut a, mut b) = ([1_u8], [2_u8]);
        let mixed = group(library(), || {
            for (comm, bytes) in [(&patient, &mut a), (&blocking, &mut b)] {
                let target = Target::from(&mut bytes[..]);
                // SAFETY: they are left alone until the group has ended.
                unsafe {
                    comm.all_reduce(
                        target.into(),
                        target,
                        Dtype::U8,
                        ReduceOp::Sum,
                        Stream::DEFAULT,
                    )
                }?;
            }
            Ok(())
        });
        assert!(mixed.unwrap_err().to_string().contains("cannot be in one group"));
        patient.destroy().unwrap();
        blocking.destroy().unwrap();
    });
}

#[test]
fn a_communicator_dropped_in_a_group_lives_until_its_end() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let library = comm.library();
        let mut bytes = [3_u8];
        group(library, || {
            let target = Target::from(&mut bytes[..]);
            // SAFETY: they are left alone until the group has ended; all ranks make the same call.
            let called = unsafe {
                comm.all_reduce(target.into(), target, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT)
            };
            drop(comm);
            called
        })
        .unwrap();
        assert_eq!(bytes, [6]);
    });
}

#[test]
fn a_group_can_be_estimated_without_being_carried_out() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        let mut bytes = [0_u8];
        let target = Target::from(&mut bytes[..]);
        let copy = || {
            let (dtype, op) = (Dtype::U8, ReduceOp::Sum);
            // SAFETY: it is left alone until the group has ended.
            unsafe { comm.all_reduce((&[3][..]).into(), target, dtype, op, Stream::DEFAULT) }
        };
        assert!(simulate(comm.library(), copy).unwrap() >= 0.0);
        assert_eq!(Source::from(target).to_vec(), [0]);
        let failed = simulate(comm.library(), || copy().and_then(|()| no_such_rank(&comm)));
        assert!(matches!(failed, Err(Error::Argument { .. })), "{failed:?}");
        assert_eq!(Source::from(target).to_vec(), [0]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            simulate(comm.library(), || copy().map(|()| panic!("in the middle")))
        }));
        assert!(panicked.is_err());
        assert_eq!(Source::from(target).to_vec(), [0]);
        // No group is open any more: the call is carried out at once.
        copy().unwrap();
        assert_eq!(Source::from(target).to_vec(), [3]);
        comm.destroy().unwrap();
    });
}

#[test]
fn groups_that_would_wait_for_each_other_are_told() {
    ranks(1, |ctx| {
        let [one, other] =
            ["one", "other"].map(|name| crate::meet::comm_with(ctx, name, &Config::new()));
        let began = Instant::now();
        for _ in 0..20 {
            let both = Barrier::new(2);
            let in_order = |first: &Comm, second: &Comm| {
                let mut bytes = [0; 8];
                let numbers = Target::from(&mut bytes[..]);
                group(library(), || {
                    add(first, numbers.slice(0..4))?;
                    both.wait();
                    add(second, numbers.slice(4..8))
                })
            };
            let results = thread::scope(|scope| {
                let forth = scope.spawn(|| in_order(&one, &other));
                let back = scope.spawn(|| in_order(&other, &one));
                [forth.join().unwrap(), back.join().unwrap()]
            });
            let refused: Vec<_> = results.iter().filter_map(|it| it.as_ref().err()).collect();
            assert_eq!(refused.len(), 1, "one goes on: {results:?}");
            assert!(matches!(refused[0], Error::Argument { .. }), "{}", refused[0]);
            let text = refused[0].to_string();
            assert!(text.contains("they would wait for each other for ever"), "{text}");
        }
        assert!(began.elapsed() < Duration::from_secs(60));
        // Those that wait without holding anything take their turns.
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut bytes = [0; 8];
                    let numbers = Target::from(&mut bytes[..]);
                    (0..50).for_each(|_| {
                        group(library(), || {
                            add(&one, numbers.slice(0..4))?;
                            add(&other, numbers.slice(4..8))
                        })
                        .unwrap();
                    });
                });
            }
        });
        [one, other].into_iter().for_each(|comm| comm.destroy().unwrap());
    });
}

#[test]
fn a_group_that_another_thread_does_not_end_is_not_waited_for_for_ever() {
    ranks(1, |ctx| {
        let limit = Config::new().timeout(Duration::from_millis(200));
        let comm = crate::meet::comm_with(ctx, "held", &limit);
        let [begun, over] = [(); 2].map(|()| Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = [0; 4];
                let number = Target::from(&mut bytes[..]);
                group(library(), || {
                    add(&comm, number)?;
                    begun.wait();
                    over.wait();
                    Ok(())
                })
                .unwrap();
            });
            begun.wait();
            let error = sum(&comm).unwrap_err();
            assert!(matches!(error, Error::Busy { rank: 0, world: 1, .. }), "{error}");
            assert!(error.to_string().contains("another thread"), "{error}");
            over.wait();
        });
        assert_eq!(sum(&comm).unwrap(), 1);
        comm.destroy().unwrap();
    });
}

#[test]
fn communicators_of_the_same_devices_are_kept_while_they_are_well() {
    ranks(1, |_| {
        let (first, again) =
            (cached(library(), &[0, 1]).unwrap(), cached(library(), &[0, 1]).unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        let other = cached(library(), &[1, 0]).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        first[0].abort().unwrap();
        let anew = cached(library(), &[0, 1]).unwrap();
        assert!(!Arc::ptr_eq(&first, &anew));
        forget(library(), &[0, 1]);
        assert!(!Arc::ptr_eq(&anew, &cached(library(), &[0, 1]).unwrap()));
        assert_eq!(anew.len(), 2);
    });
}

/// A call that is refused.
fn no_such_rank(comm: &Comm) -> consort::nccl::Result<()> {
    // SAFETY: it is refused.
    unsafe { comm.send((&[1_u8][..]).into(), Dtype::U8, 9, Stream::DEFAULT) }
}
