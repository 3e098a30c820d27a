//! Many messages at once.

use consort::{Group, Work};
use consort_testkit::{Case, Context, conformance};

use crate::{coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    ranks_that_all_send_first_do_not_wait_for_each_other_in_vain
    ranks_that_all_receive_first_do_not_wait_for_each_other_in_vain
    ranks_that_begin_in_different_orders_do_not_wait_for_each_other_in_vain
    thousands_are_on_their_way_at_once
}

/// What one rank sends to another.
fn between(from: u32, to: u32) -> Vec<u32> {
    coded((from * 16 + to) as usize, MIB / 4)
}

fn send_to_all(ctx: &Context, group: &Group) -> Vec<Work<Vec<u32>>> {
    let send = |to| group.send_async(between(ctx.rank(), to), to, 7).unwrap();
    (0..ctx.world()).map(send).collect()
}

fn receive_from_all(ctx: &Context, group: &Group) -> Vec<Work<Vec<u32>>> {
    let receive = |from| group.recv_async(room::<u32>(MIB / 4), from, 7).unwrap();
    (0..ctx.world()).map(receive).collect()
}

/// Four ranks send each other much. Each says whether it begins with what it sends.
fn exchange_among_all(case: Case, sends_first: impl Fn(u32, usize) -> bool + Sync) {
    let job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        for round in 0..3 {
            let (sent, received) = if sends_first(ctx.rank(), round) {
                let sent = send_to_all(ctx, &group);
                (sent, receive_from_all(ctx, &group))
            } else {
                let received = receive_from_all(ctx, &group);
                (send_to_all(ctx, &group), received)
            };
            // What was begun first is waited for last, by some.
            if ctx.rank().is_multiple_of(2) {
                sent.into_iter().for_each(|work| drop(work.wait().unwrap()));
                check(ctx, received);
            } else {
                check(ctx, received);
                sent.into_iter().rev().for_each(|work| drop(work.wait().unwrap()));
            }
        }
    });
    job.expect_all();
}

fn check(ctx: &Context, received: Vec<Work<Vec<u32>>>) {
    for (from, work) in (0..).zip(received) {
        assert!(work.wait().unwrap() == between(from, ctx.rank()), "from rank {from}");
    }
}

fn ranks_that_all_send_first_do_not_wait_for_each_other_in_vain(case: Case) {
    exchange_among_all(case, |_, _| true);
}

fn ranks_that_all_receive_first_do_not_wait_for_each_other_in_vain(case: Case) {
    exchange_among_all(case, |_, _| false);
}

fn ranks_that_begin_in_different_orders_do_not_wait_for_each_other_in_vain(case: Case) {
    exchange_among_all(case, |rank, round| (rank as usize + round).is_multiple_of(2));
}

fn thousands_are_on_their_way_at_once(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (me, peer) = (ctx.rank() as usize, 1 - ctx.rank());
        let tag = |message: usize| (message % 7) as u32;
        let size = |message: usize| message % 300;
        let send = |message: usize| {
            let data = coded(2 * message + me, size(message));
            group.send_async(data, peer, tag(message)).unwrap()
        };
        let receive = |message: usize| {
            group.recv_async(room::<u32>(size(message)), peer, tag(message)).unwrap()
        };
        for _ in 0..2 {
            let sent: Vec<_> = (0..4000).map(send).collect();
            let received: Vec<_> = (0..4000).map(receive).collect();
            for (message, work) in received.into_iter().enumerate().rev() {
                let theirs = coded(2 * message + peer as usize, size(message));
                assert!(work.wait().unwrap() == theirs, "message {message}");
            }
            sent.into_iter().for_each(|work| drop(work.wait().unwrap()));
        }
    });
}

const MIB: usize = 1 << 20;
