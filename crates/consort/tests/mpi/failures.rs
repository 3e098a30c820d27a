//! What becomes of a group whose ranks do not come, or die, and of those who are left.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, Group, ReduceOp, Transport};
use consort_testkit::{Context, Outcome, skip};

use super::{invited, ranks, works};

/// A test for ranks that know of each other by memory, and for such that do over the wire.
macro_rules! both_ways {
    ($($name:ident $over_the_wire:ident $check:ident)*) => {$(
        #[test]
        fn $name() {
            let ranks = match ranks(3) {
                Ok(ranks) => ranks,
                Err(reason) => return skip(reason),
            };
            check_outcomes(ranks.start(|ctx| $check(ctx, Transport::Auto)).wait());
        }

        #[test]
        fn $over_the_wire() {
            let ranks = match ranks(3) {
                Ok(ranks) => ranks,
                Err(reason) => return skip(reason),
            };
            check_outcomes(ranks.start(|ctx| $check(ctx, Transport::Tcp)).wait());
        }
    )*};
}

both_ways! {
    every_operation_works every_operation_works_with_ranks_apart all_works
    a_deadline_names_who_has_not_come a_deadline_names_who_has_not_come_from_apart be_late
    a_call_in_the_background_has_a_deadline one_in_the_background_has_one_with_ranks_apart be_late_behind
    a_death_is_named_and_the_rest_goes_on a_death_is_named_by_ranks_apart_and_the_rest_goes_on die
    an_abort_reaches_those_who_wait an_abort_reaches_those_who_wait_apart give_up
}

/// Whoever has not died has done what it should.
fn check_outcomes(outcomes: Vec<Outcome<String>>) {
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        let dies = matches!(&outcome, Outcome::Exited(_)) && rank == 2;
        assert!(dies || matches!(outcome, Outcome::Done(_)), "rank {rank}: {outcome:?}");
    }
}

fn all_works(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).verify_results(5).init().unwrap();
    works(&group);
    let part = group.split(Some(ctx.rank() / 2), 0).unwrap().unwrap();
    works(&part);
    let mut passed = [0_u64; 3000];
    let (to, from) = ((ctx.rank() + 1) % 3, (ctx.rank() + 2) % 3);
    group.send_recv(&[u64::from(ctx.rank()); 3000], to, &mut passed, from, 4).unwrap();
    assert_eq!(passed, [u64::from(from); 3000]);
    assert_eq!(part.backend_name().unwrap(), "mpi");
    String::new()
}

fn be_late(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).init().unwrap();
    works(&group);
    if ctx.rank() == 1 {
        thread::sleep(Duration::from_secs(2));
    }
    let mut numbers = [1.0_f32; 5];
    let error = group.within(SHORT).all_reduce(&mut numbers, ReduceOp::Sum).unwrap_err();
    let Error::Late { missing, call, .. } = &error else { panic!("{error:?}") };
    assert_eq!((&missing[..], &call[..]), (&[1][..], "all_reduce(sum) of 5 f32"), "{error}");
    smaller(&group, 3);
    error.to_string()
}

fn be_late_behind(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).init().unwrap();
    works(&group);
    if ctx.rank() == 1 {
        thread::sleep(Duration::from_secs(2));
    }
    let work = group.within(SHORT).all_reduce_async(vec![1.0_f32; 50_000], ReduceOp::Sum).unwrap();
    let error = work.wait().unwrap_err();
    assert!(error.to_string().contains("for ranks [1]"), "{error}");
    smaller(&group, 3);
    error.to_string()
}

fn die(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).init().unwrap();
    works(&group);
    if ctx.rank() == 2 {
        // MPI's launcher kills all others of one that a signal has killed, whatever it is told; not those of one
        // that ends by itself, and not in good order.
        // SAFETY: it ends the process.
        unsafe { libc::_exit(3) };
    }
    let began = Instant::now();
    let error = group.all_reduce(&mut [1_u16; 5], ReduceOp::Max).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
    assert!(matches!(error, Error::PeerLost { rank: 2, .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "the deadline came first");
    smaller(&group, 2);
    error.to_string()
}

fn give_up(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).init().unwrap();
    works(&group);
    if ctx.rank() == 0 {
        // Long enough for the others to be asleep.
        thread::sleep(Duration::from_millis(300));
        group.abort("the disk is full");
    }
    let error = match ctx.rank() {
        2 => group.recv(&mut [0_u8; 3], 0, 7).unwrap_err(),
        _ => group.broadcast(&mut vec![0_u8; 100_000], 1).unwrap_err(),
    };
    let Error::Aborted { by: 0, reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(reason, "the disk is full");
    smaller(&group, 3);
    error.to_string()
}

/// Those who are left have a group whose data they carry themselves.
fn smaller(group: &Group, world: usize) {
    assert!(group.barrier().is_err(), "it goes on");
    let rest = group.within(LONG).shrink().unwrap();
    assert_eq!(rest.world(), world);
    assert_ne!(rest.backend_name().unwrap(), "mpi");
    works(&rest);
}

/// For waits that have to be in vain.
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(30);
