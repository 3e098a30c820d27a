//! Calls that are carried out together, and several ranks in one process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use consort::nccl::{Bootstrap, Comm, Config, Error, Stream, cached, forget, group, simulate};
use consort::{Dtype, ReduceOp, Target};
use consort_testkit::ranks;

use crate::ends::sum;
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
        let failed: Result<(), _> = group(comm.library(), || {
            // SAFETY: it is refused.
            unsafe { comm.send((&[1_u8][..]).into(), Dtype::U8, 9, Stream::DEFAULT) }
        });
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
        let mut bytes = [3_u8];
        let time = simulate(comm.library(), || {
            let target = Target::from(&mut bytes[..]);
            // SAFETY: nothing is done.
            unsafe {
                comm.all_reduce(target.into(), target, Dtype::U8, ReduceOp::Sum, Stream::DEFAULT)
            }
        });
        assert!(time.unwrap() >= 0.0);
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
