//! Calls that take long though none of their operations of MPI does: much data goes in pieces.

use std::thread;
use std::time::Duration;

use consort::{Error, Group, ReduceOp, Result, Transport};
use consort_testkit::{Context, Ranks, Skip, skip};

use super::invited;
use super::moments::altered;

#[test]
fn a_deadline_ends_a_call_whose_pieces_keep_moving() {
    let ranks = match slow() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        let error =
            begin_to_sum(&group, |numbers| group.within(PART).all_reduce(numbers, ReduceOp::Sum));
        assert!(matches!(error, Error::Late { .. }), "{error:?}");
        assert!(group.barrier().is_err(), "it goes on");
    });
    errors.expect_all();
}

#[test]
fn a_deadline_ends_a_message_whose_packets_keep_moving() {
    let ranks = match slow() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        let mut numbers = vec![ctx.rank(); MUCH];
        group.barrier().unwrap();
        let within = group.within(PART);
        let error = match ctx.rank() {
            0 => within.send(&numbers, 1, 7).unwrap_err(),
            _ => within.recv(&mut numbers, 0, 7).unwrap_err(),
        };
        assert!(matches!(error, Error::Late { .. }), "{error:?}");
        if ctx.rank() == 1 {
            assert_eq!((numbers[0], numbers[MUCH - 1]), (0, 1), "{error}");
        }
        assert!(group.barrier().is_err(), "it goes on, though a message was cut off");
    });
    job.expect_all();
}

#[test]
fn an_abort_by_another_thread_ends_a_call_whose_pieces_keep_moving() {
    let ranks = match slow() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    ranks.start(|ctx| be_aborted(ctx, Transport::Auto)).expect_all();
}

#[test]
fn such_an_abort_reaches_ranks_apart() {
    let ranks = match slow() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    ranks.start(|ctx| be_aborted(ctx, Transport::Tcp)).expect_all();
}

/// Makes a call that another thread of rank 0 gives up in the middle.
fn be_aborted(ctx: &Context, transport: Transport) {
    let group = invited(ctx, transport).init().unwrap();
    let error = thread::scope(|scope| {
        begin_to_sum(&group, |numbers| {
            if ctx.rank() == 0 {
                scope.spawn(|| {
                    thread::sleep(PART);
                    group.abort("the disk is full");
                });
            }
            group.all_reduce(numbers, ReduceOp::Sum)
        })
    });
    let Error::Aborted { by: 0, reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(reason, "the disk is full");
}

/// Two ranks that never have to wait for an operation of MPI, though each takes a few milliseconds.
fn slow() -> Result<Ranks, Skip> {
    Ok(altered(2, 0, "is done when asked")?.env("ALTERED_RANK", "01"))
}

/// Has much summed, which begins, and does not come to its end. Says why.
fn begin_to_sum(group: &Group, sum: impl FnOnce(&mut [f32]) -> Result<()>) -> Error {
    let mut numbers = vec![1.0; MUCH];
    group.barrier().unwrap();
    let error = sum(&mut numbers).unwrap_err();
    assert_eq!((numbers[0], numbers[MUCH - 1]), (2.0, 1.0), "{error}");
    error
}

/// For the first pieces of what is much.
const PART: Duration = Duration::from_millis(200);
/// So many numbers take twice as long, and more.
const MUCH: usize = 16 << 20;
