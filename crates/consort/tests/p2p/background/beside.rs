//! Messages beside collectives of the same group.

use std::thread;

use consort::ReduceOp;
use consort_testkit::{Case, conformance};

use super::left_alone;
use crate::{RING, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    a_message_that_is_waited_for_does_not_keep_queued_calls
    a_queued_call_that_waits_does_not_keep_messages
    a_thread_that_is_in_a_collective_does_not_keep_messages
    messages_and_collectives_go_on_together
}

fn a_message_that_is_waited_for_does_not_keep_queued_calls(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = 1 - ctx.rank();
        let received = group.recv_async(room::<u32>(RING), peer, 7).unwrap();
        for _ in 0..20 {
            let sum = group.all_reduce_async(vec![1.0_f32; LARGE], ReduceOp::Sum).unwrap();
            assert_eq!(left_alone(sum).unwrap(), vec![2.0; LARGE]);
            assert!(!received.is_done());
        }
        group.barrier().unwrap();
        let sent = group.send_async(coded(ctx.rank() as usize, RING), peer, 7).unwrap();
        assert!(left_alone(received).unwrap() == coded(peer as usize, RING));
        left_alone(sent).unwrap();
    });
}

fn a_queued_call_that_waits_does_not_keep_messages(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let sums = vec![1.0_f32; LARGE];
        if ctx.rank() == 0 {
            let sum = group.all_reduce_async(sums, ReduceOp::Sum).unwrap();
            for round in 0..20 {
                let sent = group.send_async(coded(round, RING), 1, 7).unwrap();
                let received = group.recv_async(room::<u32>(RING), 1, 7).unwrap();
                // By the progress thread, or by this one.
                let received = if round % 2 == 0 { left_alone(received) } else { received.wait() };
                assert!(received.unwrap() == coded(round, RING));
                sent.wait().unwrap();
                assert!(!sum.is_done());
            }
            group.send(&[1_u8], 1, 8).unwrap();
            assert_eq!(sum.wait().unwrap(), vec![2.0; LARGE]);
        } else {
            let mut received = room::<u32>(RING);
            for _ in 0..20 {
                group.recv(&mut received, 0, 7).unwrap();
                group.send(&received, 0, 7).unwrap();
            }
            group.recv(&mut [0_u8], 0, 8).unwrap();
            let sum = group.all_reduce_async(sums, ReduceOp::Sum).unwrap();
            assert_eq!(sum.wait().unwrap(), vec![2.0; LARGE]);
        }
    });
}

fn a_thread_that_is_in_a_collective_does_not_keep_messages(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = 1 - ctx.rank();
        let exchange = || {
            let sent = group.send_async(coded(ctx.rank() as usize, RING), peer, 7).unwrap();
            let received = group.recv_any_async(room::<u32>(RING), 7).unwrap();
            assert!(received.wait().unwrap() == (coded(peer as usize, RING), peer.into()));
            sent.wait().unwrap();
        };
        thread::scope(|scope| {
            let barrier = (ctx.rank() == 0).then(|| {
                ctx.reach("the barrier");
                scope.spawn(|| group.barrier().unwrap())
            });
            exchange();
            exchange();
            match barrier {
                Some(barrier) => barrier.join().unwrap(),
                None => group.barrier().unwrap(),
            }
        });
    });
}

fn messages_and_collectives_go_on_together(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (me, world) = (ctx.rank(), ctx.world());
        let (next, previous) = ((me + 1) % world, (me + world - 1) % world);
        for round in 0..30_usize {
            let size = 1 + round * 997;
            let message = |rank: u32| coded(rank as usize + round, size);
            let sum = group.all_reduce_async(vec![1.0_f32; size], ReduceOp::Sum).unwrap();
            let received = group.recv_async(room::<u32>(size), previous, 7).unwrap();
            let sent = group.send_async(message(me), next, 7).unwrap();
            let mut most = [me];
            group.all_reduce(&mut most, ReduceOp::Max).unwrap();
            assert_eq!(most, [2]);
            assert!(received.wait().unwrap() == message(previous));
            assert_eq!(sum.wait().unwrap(), vec![3.0; size]);
            sent.wait().unwrap();
        }
    });
}

/// More than all staging buffers of a rank hold, so that no rank gets through on its own.
const LARGE: usize = 1 << 19;
