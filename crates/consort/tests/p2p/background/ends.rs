//! What is dropped while messages are on their way.

use std::fs;
use std::time::Duration;

use consort::Error;
use consort_testkit::{Case, await_threads, conformance};

use super::left_alone;
use crate::{RING, capacity, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    a_rank_that_left_is_not_waited_for
    a_message_whose_work_is_dropped_goes_on
}
conformance! { [shm tcp mixed]
    a_group_that_is_dropped_with_messages_and_calls_on_their_way_is_left_after_the_last
    a_group_that_is_dropped_with_messages_on_their_way_is_left_when_they_are_done
    a_message_that_is_waited_for_takes_no_processor
}

fn a_message_whose_work_is_dropped_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            drop(group.send_async(coded(0, 3 * RING), 1, 7).unwrap());
            drop(group.recv_async(room::<u32>(3), 1, 7).unwrap());
            let second = group.recv_async(room::<u32>(3), 1, 7).unwrap();
            // The first message was for the one that nobody waits for.
            assert_eq!(left_alone(second).unwrap(), coded(2, 3));
        } else {
            let received = group.recv_async(room::<u32>(3 * RING), 0, 7).unwrap();
            assert!(left_alone(received).unwrap() == coded(0, 3 * RING));
            [1, 2].into_iter().for_each(|it| group.send(&coded(it, 3), 0, 7).unwrap());
        }
        group.barrier().unwrap();
    });
}

fn a_group_that_is_dropped_with_messages_on_their_way_is_left_when_they_are_done(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            drop(group.send_async(coded(0, 3 * RING), 1, 7).unwrap());
            drop(group.recv_any_async(room::<u32>(3), 7).unwrap());
            // The system shows with some delay that a thread has begun.
            await_threads(NAME, 1);
            drop(group);
            return await_threads(NAME, 0);
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut received = room::<u32>(3 * RING);
        group.recv(&mut received, 0, 7).unwrap();
        assert!(received == coded(0, 3 * RING));
        group.send(&coded(1, 3), 0, 7).unwrap();
        let error = group.recv(&mut received, 0, 7).unwrap_err();
        assert!(matches!(error, Error::Left { .. }), "{error}");
    });
}

fn a_group_that_is_dropped_with_messages_and_calls_on_their_way_is_left_after_the_last(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = 1 - ctx.rank();
        for round in 0..10 {
            let part = group.split(Some(0), 0).unwrap().unwrap();
            let sum = part.all_reduce_async(vec![1_u64; 1000], consort::ReduceOp::Sum).unwrap();
            drop(part.recv_async(room::<u32>(RING), peer, 7).unwrap());
            if round % 2 == 0 {
                drop(sum);
            } else {
                assert_eq!(sum.wait().unwrap(), [2; 1000]);
            }
            let sent = part.send_async(coded(round, RING), peer, 7).unwrap();
            drop(part);
            assert!(sent.wait().unwrap() == coded(round, RING));
        }
        // The system shows with some delay that a thread has begun: whoever took that for its end
        // would leave before it has received the other's last message.
        group.barrier().unwrap();
        drop(group);
        await_threads(NAME, 0);
    });
}

fn a_rank_that_left_is_not_waited_for(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            return group.send(&coded(0, 3), 0, 7).unwrap();
        }
        let works = [0, 1].map(|_| group.recv_async(room::<u32>(3), 1, 7).unwrap());
        let any = group.recv_any_async(room::<u32>(3), 7).unwrap();
        let large = group.send_async(room::<u32>(capacity(ctx)), 1, 7).unwrap();
        let [first, second] = works;
        assert_eq!(first.wait().unwrap(), coded(0, 3));
        for failed in [left_alone(second).unwrap_err(), large.wait().unwrap_err()] {
            let is_left = matches!(&failed.error, Error::Left { ranks, .. } if ranks == &[1]);
            assert!(is_left, "{failed}");
        }
        let failed = any.wait().unwrap_err();
        assert!(failed.to_string().contains("recv of 3 u32 from any rank with tag 7"), "{failed}");
        assert_eq!(failed.buffer, [0; 3]);
    });
}

fn a_message_that_is_waited_for_takes_no_processor(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let works: Vec<_> =
                (0..1000).map(|_| group.recv_async(room::<u32>(3), 1, 7).unwrap()).collect();
            std::thread::sleep(Duration::from_millis(100));
            let before = processor_time();
            std::thread::sleep(Duration::from_millis(500));
            let used = processor_time() - before;
            group.send(&[1_u8], 1, 1).unwrap();
            assert!(used <= 10, "{used} hundredths of a second");
            works.into_iter().for_each(|work| drop(work.wait().unwrap()));
        } else {
            group.recv(&mut [0_u8], 0, 1).unwrap();
            (0..1000).for_each(|it| group.send(&coded(it, 3), 0, 7).unwrap());
        }
    });
}

/// How long this process has computed, in the system's units of a hundredth of a second.
fn processor_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The thread for asynchronous messages.
const NAME: &str = "consort";
