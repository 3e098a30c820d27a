//! Several threads of a rank at once.

use std::thread;

use consort::ReduceOp;
use consort_testkit::{Case, conformance};

use super::{RING, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    threads_wait_for_messages_with_different_tags_while_another_runs_collectives
    threads_that_wait_for_the_same_tag_get_a_message_each
}

fn threads_wait_for_messages_with_different_tags_while_another_runs_collectives(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = 1 - ctx.rank();
        let size = |tag: u32| if tag.is_multiple_of(2) { 3 } else { RING / 2 + tag as usize };
        thread::scope(|scope| {
            for tag in 0..6 {
                let group = &group;
                scope.spawn(move || {
                    for message in 0..20 {
                        let mut received = room::<u32>(size(tag));
                        group.recv(&mut received, peer, tag).unwrap();
                        assert!(received == coded(message + tag as usize, size(tag)));
                    }
                });
            }
            for tags in [[0, 1], [3, 2], [5, 4]] {
                let group = &group;
                scope.spawn(move || {
                    for message in 0..20 {
                        for tag in tags {
                            let data = coded(message + tag as usize, size(tag));
                            group.send(&data, peer, tag).unwrap();
                        }
                    }
                });
            }
            for _ in 0..200 {
                let mut sum = [1_u32];
                group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
                assert_eq!(sum, [2]);
            }
        });
    });
}

fn threads_that_wait_for_the_same_tag_get_a_message_each(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            return (0..40).for_each(|message| group.send(&coded(message, 20_000), 0, 1).unwrap());
        }
        let mut firsts: Vec<u32> = thread::scope(|scope| {
            let receive = || {
                let mut received = room::<u32>(20_000);
                (0..10)
                    .map(|_| {
                        group.recv_any(&mut received, 1).unwrap();
                        let message = received[0] >> 24;
                        assert!(received == coded(message as usize, 20_000));
                        message
                    })
                    .collect::<Vec<u32>>()
            };
            let threads = [(); 4].map(|()| scope.spawn(receive));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        firsts.sort_unstable();
        assert!(firsts.into_iter().eq(0..40));
    });
}
