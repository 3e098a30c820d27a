//! Who gets which message.

use std::sync::Mutex;
use std::thread;

use consort::Error;
use consort_testkit::{Case, conformance};

use super::left_alone;
use crate::{RING, SHORT, capacity, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    messages_do_not_overtake_each_other_whoever_waits_for_them
    a_blocking_send_goes_behind_those_that_were_made_before_it
    receives_get_messages_in_the_order_in_which_they_were_made
    a_blocking_receive_from_anybody_is_behind_those_that_wait_for_somebody
    tags_are_received_in_another_order_than_they_were_sent
    a_receive_that_was_given_up_leaves_the_message_to_the_next
    a_thread_that_sends_is_not_kept_for_ever_by_one_that_never_stops
}

/// How long a message is: now short, now longer than a ring.
fn size(message: usize) -> usize {
    if message.is_multiple_of(3) { RING / 3 + message } else { message }
}

fn messages_do_not_overtake_each_other_whoever_waits_for_them(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let messages = 0..120;
        if ctx.rank() == 0 {
            let mut works = Vec::new();
            for message in messages {
                let data = coded(message, size(message));
                match message % 4 {
                    3 => group.send(&data, 1, 7).unwrap(),
                    _ => works.push(group.send_async(data, 1, 7).unwrap()),
                }
            }
            return works.into_iter().for_each(|work| drop(work.wait().unwrap()));
        }
        let mut works = Vec::new();
        for message in messages {
            let mut received = room::<u32>(size(message));
            if message % 5 == 4 {
                group.recv(&mut received, 0, 7).unwrap();
                assert!(received == coded(message, size(message)), "message {message}");
            } else {
                works.push((message, group.recv_async(received, 0, 7).unwrap()));
            }
        }
        for (message, work) in works {
            assert!(work.wait().unwrap() == coded(message, size(message)), "message {message}");
        }
    });
}

fn a_blocking_send_goes_behind_those_that_were_made_before_it(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let size = capacity(ctx) / 2;
        if ctx.rank() == 0 {
            let works = [0, 1].map(|it| group.send_async(coded(it, size), 1, 7).unwrap());
            let late = group.within(SHORT).send(&[9_u32], 1, 8).unwrap_err();
            assert!(matches!(late, Error::Late { .. }), "it did not wait: {late}");
            group.barrier().unwrap();
            group.send(&coded(2, 3), 1, 7).unwrap();
            // All before it have gone.
            assert!(works.iter().all(left_soon));
            return;
        }
        group.barrier().unwrap();
        for (message, size) in [(0, size), (1, size), (2, 3)] {
            let mut received = room::<u32>(size);
            group.recv(&mut received, 0, 7).unwrap();
            assert!(received == coded(message, size), "message {message}");
        }
    });
}

/// Whether a work is done that was done before, but may not have been told so.
fn left_soon<T>(work: &consort::Work<T>) -> bool {
    (0..2000).any(|_| {
        thread::sleep(std::time::Duration::from_millis(1));
        work.is_done()
    })
}

fn receives_get_messages_in_the_order_in_which_they_were_made(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            group.barrier().unwrap();
            return (0..5).for_each(|it| group.send(&coded(it, 10), 0, 7).unwrap());
        }
        let from_one = || group.recv_async(room::<u32>(10), 1, 7).unwrap();
        let from_any = || group.recv_any_async(room::<u32>(10), 7).unwrap();
        let (first, second, third, fourth) = (from_one(), from_any(), from_one(), from_any());
        group.barrier().unwrap();
        let mut last = room::<u32>(10);
        group.recv(&mut last, 1, 7).unwrap();
        assert_eq!(left_alone(fourth).unwrap(), (coded(3, 10), 1.into()));
        assert_eq!(third.wait().unwrap(), coded(2, 10));
        assert_eq!(second.wait().unwrap(), (coded(1, 10), 1.into()));
        assert_eq!(first.wait().unwrap(), coded(0, 10));
        assert_eq!(last, coded(4, 10));
    });
}

fn a_blocking_receive_from_anybody_is_behind_those_that_wait_for_somebody(case: Case) {
    let job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            (0..2).for_each(|it| group.send(&coded(it, 10), 0, 7).unwrap());
        }
        let from_one = (ctx.rank() == 0).then(|| group.recv_async(room::<u32>(10), 2, 7).unwrap());
        group.barrier().unwrap();
        match ctx.rank() {
            0 => {
                // Nobody waits asynchronously for what has come from rank 1.
                let mut received = room::<u32>(10);
                assert_eq!(group.recv_any(&mut received, 7).unwrap(), 1);
                assert_eq!(received, coded(0, 10));
                group.send(&[1_u8], 2, 1).unwrap();
                group.recv(&mut received, 2, 7).unwrap();
                assert_eq!(received, coded(11, 10));
                assert_eq!(from_one.unwrap().wait().unwrap(), coded(10, 10));
                assert_eq!(group.recv_any(&mut received, 7).unwrap(), 1);
            }
            2 => {
                group.recv(&mut [0_u8], 0, 1).unwrap();
                (10..12).for_each(|it| group.send(&coded(it, 10), 0, 7).unwrap());
            }
            _ => {}
        }
    });
    job.expect_all();
}

fn tags_are_received_in_another_order_than_they_were_sent(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let tags = 0..60_u32;
        if ctx.rank() == 0 {
            let send = |tag| group.send_async(coded(tag as usize, size(tag as usize)), 1, tag);
            let works: Vec<_> = tags.map(|tag| send(tag).unwrap()).collect();
            return works.into_iter().for_each(|work| drop(work.wait().unwrap()));
        }
        let receive = |tag| group.recv_async(room::<u32>(size(tag as usize)), 0, tag);
        // The last first: what comes before is put away, or taken by those who wait for it.
        let mut works: Vec<_> =
            tags.clone().rev().take(30).map(|tag| (tag, receive(tag).unwrap())).collect();
        let (tag, work) = works.remove(0);
        assert!(work.wait().unwrap() == coded(tag as usize, size(tag as usize)));
        works.extend(tags.take(30).map(|tag| (tag, receive(tag).unwrap())));
        for (tag, work) in works {
            let received = work.wait().unwrap();
            assert!(received == coded(tag as usize, size(tag as usize)), "tag {tag}");
        }
    });
}

fn a_receive_that_was_given_up_leaves_the_message_to_the_next(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let hasty = group.within(SHORT);
            let given_up = hasty.recv_async(room::<u32>(3), 1, 7).unwrap();
            let too = hasty.recv_any_async(room::<u32>(3), 7).unwrap();
            let patient = group.recv_async(room::<u32>(3), 1, 7).unwrap();
            let failed = left_alone(given_up).unwrap_err();
            assert!(matches!(failed.error, Error::Late { .. }), "{failed}");
            assert!(matches!(left_alone(too).unwrap_err().error, Error::Late { .. }));
            group.barrier().unwrap();
            assert_eq!(patient.wait().unwrap(), coded(0, 3));
        } else {
            group.barrier().unwrap();
            group.send(&coded(0, 3), 0, 7).unwrap();
        }
    });
}

fn a_thread_that_sends_is_not_kept_for_ever_by_one_that_never_stops(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let has_sent = Mutex::new(false);
        if ctx.rank() == 0 {
            return thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..10 {
                        group.send(&coded(0, RING / 8), 1, 2).unwrap();
                    }
                    *has_sent.lock().unwrap() = true;
                });
                let mut works = std::collections::VecDeque::new();
                while !*has_sent.lock().unwrap() {
                    works.push_back(group.send_async(vec![0_u32; RING / 8], 1, 1).unwrap());
                    if works.len() > 20 {
                        works.pop_front().unwrap().wait().unwrap();
                    }
                }
                group.send(&vec![1_u32; RING / 8], 1, 1).unwrap();
            });
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut received = room::<u32>(RING / 8);
                (0..10).for_each(|_| group.recv(&mut received, 0, 2).unwrap());
            });
            let mut received = room::<u32>(RING / 8);
            while received[0] == 0 {
                group.recv(&mut received, 0, 1).unwrap();
            }
        });
    });
}
