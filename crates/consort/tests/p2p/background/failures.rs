//! Messages that do not come, or others.

use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, Group, Input};
use consort_testkit::{Case, Context, Outcome, conformance};

use super::{LONG, left_alone};
use crate::{RING, SHORT, capacity, coded, empty, fill, meet, room};

conformance! { [shm tcp mixed]
    a_peer_that_is_killed_ends_all_that_waits_and_the_buffers_come_back
}
conformance! { [shm tcp mixed in_process mpi]
    a_message_that_does_not_come_in_time_is_an_error_and_the_group_goes_on
    a_message_that_had_no_room_in_time_is_not_sent_and_those_behind_it_are
    a_message_that_is_cut_off_in_the_middle_ends_the_group
    a_message_of_another_type_or_length_is_an_error_that_shows_both
    an_abort_ends_all_that_is_on_its_way
    messages_that_make_no_sense_are_refused_with_their_buffers
    a_buffer_that_panics_ends_its_group_but_not_those_of_others
}

fn a_peer_that_is_killed_ends_all_that_waits_and_the_buffers_come_back(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        ctx.reach("met");
        match ctx.rank() {
            0 => {
                let from_dead = [0, 1].map(|_| group.recv_async(room::<u32>(3), 1, 7).unwrap());
                let size = 2 * capacity(ctx);
                let to_dead = group.send_async(room::<u32>(size), 1, 7).unwrap();
                let behind = group.send_async(room::<u32>(5), 1, 7).unwrap();
                let from_other = group.recv_async(room::<u32>(3), 2, 7).unwrap();
                let from_any = group.recv_any_async(room::<u32>(3), 7).unwrap();
                let mut told = Vec::new();
                for (at, work) in from_dead.into_iter().enumerate() {
                    // Some are left to the progress thread.
                    let failed = if at == 0 { left_alone(work) } else { work.wait() }.unwrap_err();
                    assert_eq!(failed.buffer, [0; 3]);
                    told.push(failed.error);
                }
                for (work, len) in [(to_dead, size), (behind, 5), (from_other, 3)] {
                    let failed = work.wait().unwrap_err();
                    assert_eq!(failed.buffer.len(), len);
                    told.push(failed.error);
                }
                told.push(from_any.wait().unwrap_err().error);
                let later = group.recv_async(vec![1_u8], 2, 7).unwrap().wait().unwrap_err();
                told.extend([later.error, group.error().unwrap()]);
                for error in &told {
                    assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
                    assert!(matches!(error, Error::PeerLost { rank: 1, by: 0, .. }), "{error}");
                    assert_eq!(error.to_string(), told[0].to_string());
                }
            }
            1 => loop {
                std::thread::park();
            },
            _ => {
                let work = group.recv_async(room::<u32>(3), 0, 7).unwrap();
                let failed = left_alone(work).unwrap_err();
                assert!(matches!(failed.error, Error::PeerLost { rank: 1, by: 0, .. }), "{failed}");
            }
        }
    });
    for rank in 0..3 {
        job.await_point(rank, "met");
    }
    std::thread::sleep(Duration::from_millis(100));
    job.kill(1);
    let outcomes = job.wait();
    assert_eq!(outcomes[1], Outcome::Signalled(9));
    for rank in [0, 2] {
        assert_eq!(outcomes[rank], Outcome::Done(()), "rank {rank}");
    }
}

fn a_message_that_does_not_come_in_time_is_an_error_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let start = Instant::now();
            let hasty = group.within(SHORT);
            let from_one = hasty.recv_async(vec![7_i32; 2], 1, 7).unwrap();
            let from_any = hasty.recv_any_async(vec![7_i32; 2], 8).unwrap();
            let from_me = hasty.recv_async(vec![7_i32; 2], 0, 8).unwrap();
            let failed = from_one.wait().unwrap_err();
            assert!(start.elapsed() >= SHORT && start.elapsed() < LONG);
            assert_eq!(
                (failed.error.kind(), &failed.buffer[..]),
                (ErrorKind::Deadline, &[7, 7][..])
            );
            let text = failed.to_string();
            let expected = "in recv of 2 i32 from rank 1 with tag 7, for ranks [1]";
            assert!(text.contains(expected), "{text}");
            let failed = left_alone(from_any).unwrap_err();
            assert!(failed.to_string().contains("from any rank with tag 8"), "{failed}");
            let failed = from_me.wait().unwrap_err();
            assert!(matches!(&failed.error, Error::Late { missing, .. } if missing == &[0]));
        }
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            return group.send(&[5, 6], 0, 7).unwrap();
        }
        assert_eq!(group.recv_async(vec![0_i32; 2], 1, 7).unwrap().wait().unwrap(), [5, 6]);
    });
}

fn a_message_that_had_no_room_in_time_is_not_sent_and_those_behind_it_are(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let count = fill(ctx, &group);
            let hasty = group.within(SHORT).send_async(coded(1, 100), 1, 7).unwrap();
            let patient = group.send_async(coded(2, 100), 1, 7).unwrap();
            let failed = left_alone(hasty).unwrap_err();
            assert!(matches!(failed.error, Error::Late { .. }), "{failed}");
            assert_eq!(failed.buffer, coded(1, 100));
            group.broadcast(&mut [count], 0).unwrap();
            patient.wait().unwrap();
        } else {
            let mut count = [0];
            group.broadcast(&mut count, 0).unwrap();
            empty(ctx, &group, count[0]);
            let received = group.recv_async(room::<u32>(100), 0, 7).unwrap().wait();
            assert_eq!(received.unwrap(), coded(2, 100));
        }
    });
}

fn a_message_that_is_cut_off_in_the_middle_ends_the_group(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let size = 2 * capacity(ctx);
        let error = if ctx.rank() == 0 {
            let other = group.recv_async(vec![0_u8], 1, 7).unwrap();
            let work = group.within(SHORT).send_async(room::<u8>(size), 1, 7).unwrap();
            let failed = left_alone(work).unwrap_err();
            assert!(matches!(failed.error, Error::Late { .. }), "{failed}");
            assert_eq!(failed.buffer.len(), size);
            left_alone(other).unwrap_err().error
        } else {
            // Whoever waits for a message would take it away.
            group.barrier().unwrap_err()
        };
        let Error::Late { missing, by: 0, call, .. } = &error else { panic!("{error}") };
        let cut_off = format!("send of {size} u8 to rank 1 with tag 7");
        assert_eq!((&missing[..], &call[..]), (&[1][..], &cut_off[..]));
        assert_eq!(group.error().unwrap().to_string(), error.to_string());
    });
}

fn a_message_of_another_type_or_length_is_an_error_that_shows_both(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            group.send(&[1.0_f64, 2.0, 3.0], 1, 7).unwrap();
            group.send(&room::<u8>(3 * RING), 1, 7).unwrap();
            return group.send(&[9_u16], 1, 7).unwrap();
        }
        let first = group.recv_async(vec![7_i32; 6], 0, 7).unwrap();
        let second = group.recv_any_async(vec![7_i32; 6], 7).unwrap();
        let third = group.recv_async(vec![7_u16], 0, 7).unwrap();
        let failed = left_alone(first).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "group world: rank 0 sent 3 f64 (24 bytes) with tag 7, but this rank expected 6 i32 (24 \
             bytes): the message is lost"
        );
        assert_eq!(failed.buffer, [7; 6]);
        let failed = second.wait().unwrap_err();
        assert!(matches!(failed.error, Error::MessageDiffers { from: 0, .. }), "{failed}");
        assert_eq!(failed.buffer, [7; 6]);
        assert_eq!(third.wait().unwrap(), [9]);
    });
}

fn an_abort_ends_all_that_is_on_its_way(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // Nobody looks at what rank 0 sends: who does takes it away.
        let works: Vec<_> = if ctx.rank() == 0 {
            (0..3).map(|_| group.send_async(room::<u32>(capacity(ctx)), 1, 50).unwrap()).collect()
        } else {
            (0..20).map(|tag| group.recv_async(room::<u32>(3), 1, tag).unwrap()).collect()
        };
        if ctx.rank() == 0 {
            group.recv(&mut [0_u8], 1, 60).unwrap();
            group.abort("enough");
        } else {
            group.send(&[1_u8], 0, 60).unwrap();
        }
        for (at, work) in works.into_iter().enumerate() {
            let failed = if at % 2 == 0 { left_alone(work) } else { work.wait() }.unwrap_err();
            assert_eq!(failed.to_string(), "group world: rank 0 has ended it: enough");
            assert!(failed.buffer.len() >= 3);
        }
    });
}

fn messages_that_make_no_sense_are_refused_with_their_buffers(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        let failed = group.send_async(vec![1_u8], 1, 0).unwrap_err();
        assert!(matches!(failed.error, Error::Argument(_)), "{failed}");
        assert_eq!(failed.to_string(), "there is no rank 1 in a group of 1");
        assert_eq!(failed.buffer, [1]);
        assert_eq!(group.recv_async(vec![2_u8], 7, 0).unwrap_err().buffer, [2]);
        group.barrier().unwrap();
    });
}

/// Numbers that cannot be read any more after some time.
struct Fading {
    numbers: Vec<u32>,
    until: Instant,
}

impl Input for Fading {
    type Element = u32;

    fn elements(&self) -> &[u32] {
        assert!(Instant::now() < self.until, "faded");
        &self.numbers
    }
}

fn a_buffer_that_panics_ends_its_group_but_not_those_of_others(case: Case) {
    let fade = |ctx: &Context, group: &Group| {
        let size = 2 * capacity(ctx);
        let faded = Fading { numbers: room(size), until: Instant::now() + SHORT };
        let failed = left_alone(group.send_async(faded, 1, 7).unwrap()).map(drop).unwrap_err();
        assert!(matches!(failed.error, Error::Abandoned { operation: "send" }), "{failed}");
        assert_eq!(failed.buffer.numbers.len(), size);
    };
    case.run(2, |ctx| {
        let group = meet(ctx);
        let part = group.split(Some(0), 0).unwrap().unwrap();
        if ctx.rank() == 0 {
            fade(ctx, &part);
        }
        let error = part.barrier().unwrap_err();
        assert!(matches!(error, Error::Aborted { by: 0, .. }), "{error}");
        assert!(error.to_string().contains("panicked"), "{error}");
        let peer = 1 - ctx.rank();
        let sent = group.send_async(coded(ctx.rank() as usize, RING), peer, 7).unwrap();
        let received = group.recv_async(room::<u32>(RING), peer, 7).unwrap();
        assert!(left_alone(received).unwrap() == coded(peer as usize, RING));
        left_alone(sent).unwrap();
    });
}
