//! What happens when a message does not come, or another one.

use std::time::{Duration, Instant};

use consort::{Dtype, Error, ErrorKind, Group, Incoming, Outgoing, Rank, Tag};
use consort_testkit::{Case, Context, Outcome, conformance};

use super::{RING, SHORT, capacity, coded, empty, fill, meet, room};

conformance! { [shm tcp mixed]
    a_peer_that_is_killed_while_a_long_message_goes_to_it_is_named
    a_peer_that_is_killed_while_its_message_is_waited_for_is_named
    a_peer_that_is_killed_while_anybody_is_waited_for_is_named
}
conformance! { [shm tcp mixed in_process mpi]
    whoever_waits_for_a_message_hears_that_the_group_was_aborted
    a_short_message_to_a_rank_that_has_left_is_refused_and_not_lost_in_silence
    a_message_that_does_not_come_in_time_is_an_error_and_the_group_goes_on
    small_messages_are_sent_until_there_is_no_more_room_and_the_group_goes_on
    a_message_that_is_cut_off_in_the_middle_ends_the_group
    a_message_of_another_type_or_length_is_an_error_that_shows_both
    what_does_not_fit_does_not_hold_up_what_is_sent_at_the_same_time
    calls_that_make_no_sense_are_refused
}

fn a_peer_that_is_killed_while_its_message_is_waited_for_is_named(case: Case) {
    let errors = kill_rank_1(case, |_, group| group.recv(&mut room::<f32>(3), 1, 7).unwrap_err());
    let expected = "recv of 3 f32 from rank 1 with tag 7";
    assert!(
        errors[0].starts_with(
            "group world: rank 1 is gone: its process has ended, or cannot be reached;"
        ),
        "{errors:?}"
    );
    assert!(first_line(&errors[0]).ends_with(expected), "{errors:?}");
}

fn a_peer_that_is_killed_while_a_long_message_goes_to_it_is_named(case: Case) {
    let errors =
        kill_rank_1(case, |ctx, group| group.send(&room::<u64>(capacity(ctx)), 1, 7).unwrap_err());
    assert!(errors[0].contains("rank 1 is gone"), "{errors:?}");
    assert!(first_line(&errors[0]).ends_with(" u64 to rank 1 with tag 7"), "{errors:?}");
}

/// What says it all; below is what is known of those it names.
fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or_default()
}

fn a_peer_that_is_killed_while_anybody_is_waited_for_is_named(case: Case) {
    let errors = kill_rank_1(case, |_, group| group.recv_any(&mut room::<f32>(3), 7).unwrap_err());
    assert!(errors[0].contains("rank 1 is gone"), "{errors:?}");
}

/// There would be room for it in the ring, but nobody reads it any more.
fn a_short_message_to_a_rank_that_has_left_is_refused_and_not_lost_in_silence(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        if ctx.rank() == 1 {
            group.send(&[9_u8], 0, 7).unwrap();
            drop(group);
            world.barrier().unwrap();
            return;
        }
        world.barrier().unwrap();
        let (sync, later) = (group.send(&[1_u8], 1, 7), group.send_async(vec![1_u8], 1, 7));
        let later = later.and_then(|work| work.wait()).map(drop).map_err(Error::from);
        for error in [sync, later].map(Result::unwrap_err) {
            let Error::Left { ranks, call, .. } = &error else { panic!("{error}") };
            assert_eq!((&ranks[..], &call[..]), (&[1][..], "send of 1 u8 to rank 1 with tag 7"));
            assert_eq!(error.kind(), ErrorKind::PeerGone);
        }
        // What it sent before can be received.
        let mut last = [0_u8];
        group.recv(&mut last, 1, 7).unwrap();
        assert!(last == [9] && group.error().is_none());
    });
}

/// Kills rank 1 while rank 0 waits in a call that fails, and rank 2 in a call for rank 0. Gives
/// what both were told.
fn kill_rank_1(case: Case, call: impl Fn(&Context, &Group) -> Error + Sync) -> Vec<String> {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        ctx.reach("met");
        match ctx.rank() {
            0 => {
                let error = call(ctx, &group);
                assert_eq!(error.kind(), ErrorKind::PeerGone);
                assert!(matches!(error, Error::PeerLost { rank: 1, by: 0, .. }), "{error}");
                let later = group.send(&[1_u8], 2, 7).unwrap_err();
                for later in [later, group.barrier().unwrap_err(), group.error().unwrap()] {
                    assert_eq!(later.to_string(), error.to_string());
                }
                error.to_string()
            }
            1 => loop {
                std::thread::park();
            },
            _ => {
                let error = group.recv(&mut [0_u8], 0, 7).unwrap_err();
                assert!(matches!(error, Error::PeerLost { rank: 1, by: 0, .. }), "{error}");
                error.to_string()
            }
        }
    });
    for rank in 0..3 {
        job.await_point(rank, "met");
    }
    std::thread::sleep(Duration::from_millis(100));
    job.kill(1);
    let outcomes = job.wait().into_iter();
    let told =
        outcomes.enumerate().filter(|(rank, _)| *rank != 1).map(|(rank, outcome)| match outcome {
            Outcome::Done(told) => told,
            other => panic!("rank {rank}: {other:?}"),
        });
    let told: Vec<String> = told.collect();
    assert_eq!(told[0], told[1]);
    told
}

fn a_message_that_does_not_come_in_time_is_an_error_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let mut received = [0_i32; 2];
        if ctx.rank() == 0 {
            let start = Instant::now();
            let error = group.within(SHORT).recv(&mut received, 1, 7).unwrap_err();
            assert!(start.elapsed() >= SHORT);
            assert_eq!(error.kind(), ErrorKind::Deadline);
            let text = error.to_string();
            assert!(
                text.contains("in recv of 2 i32 from rank 1 with tag 7, for ranks [1]"),
                "{text}"
            );
            let error = group.within(SHORT).recv_any(&mut received, 7).unwrap_err();
            assert!(error.to_string().contains("from any rank with tag 7"), "{error}");
            let error = group.within(SHORT).recv(&mut received, 0, 7).unwrap_err();
            assert!(matches!(&error, Error::Late { missing, .. } if missing == &[0]), "{error}");
        }
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            return group.send(&[5, 6], 0, 7).unwrap();
        }
        group.recv(&mut received, 1, 7).unwrap();
        assert_eq!(received, [5, 6]);
    });
}

fn small_messages_are_sent_until_there_is_no_more_room_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let count = if ctx.rank() == 0 { fill(ctx, &group) } else { 0 };
        if ctx.rank() == 0 && capacity(ctx) == RING {
            assert_eq!(count as usize, RING / 64);
        }
        let mut counts = [0; 2];
        group.all_gather(&[count], &mut counts).unwrap();
        if ctx.rank() == 1 {
            empty(ctx, &group, counts[0]);
        }
        group.barrier().unwrap();
    });
}

fn a_message_that_is_cut_off_in_the_middle_ends_the_group(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let size = 2 * capacity(ctx);
        let error = if ctx.rank() == 0 {
            let error = group.within(SHORT).send(&room::<u8>(size), 1, 7).unwrap_err();
            assert!(matches!(error, Error::Late { .. }), "{error}");
            group.recv(&mut [0_u8], 1, 7).unwrap_err()
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
            for tag in [1, 2] {
                // The second time they are received after another.
                group.send(&[1.0_f64, 2.0, 3.0], 1, tag).unwrap();
                group.send(&[1_i32; 5], 1, tag).unwrap();
                group.send(&room::<u8>(3 * RING), 1, tag).unwrap();
                group.send(&[9_u16], 1, tag).unwrap();
            }
            return group.send(&[0_u8], 1, 3).unwrap();
        }
        for tag in [1, 2] {
            if tag == 2 {
                group.recv(&mut [0_u8], 0, 3).unwrap();
            }
            let mut buffer = [7_i32; 8];
            let refused = |error: Error, sent: &str, expected: &str| {
                assert_eq!(error.kind(), ErrorKind::Mismatch);
                let shown = format!(
                    "group world: rank 0 sent {sent} with tag {tag}, but this rank expected \
                     {expected}: the message is lost"
                );
                assert_eq!(error.to_string(), shown);
            };
            let error = group.recv(&mut buffer[2..8], 0, tag).unwrap_err();
            refused(error, "3 f64 (24 bytes)", "6 i32 (24 bytes)");
            let error = group.recv(&mut buffer[2..6], 0, tag).unwrap_err();
            refused(error, "5 i32 (20 bytes)", "4 i32 (16 bytes)");
            let error = group.recv_any(&mut buffer[2..3], tag).unwrap_err();
            refused(error, "196608 u8 (196608 bytes)", "1 i32 (4 bytes)");
            assert_eq!(buffer, [7; 8], "nothing was written");
            let mut number = [0_u16];
            group.recv(&mut number, 0, tag).unwrap();
            assert_eq!(number, [9]);
        }
    });
}

fn what_does_not_fit_does_not_hold_up_what_is_sent_at_the_same_time(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (me, peer) = (ctx.rank() as usize, 1 - ctx.rank());
        let data = coded(me, RING + me);
        let mut received = room::<u32>(RING);
        let outcome = group.send_recv(&data, peer, &mut received, peer, 7);
        if me == 0 {
            assert!(matches!(outcome, Err(Error::MessageDiffers { from: 1, .. })), "{outcome:?}");
        } else {
            outcome.unwrap();
            assert!(received == coded(0, RING));
        }
        group.barrier().unwrap();
    });
}

fn calls_that_make_no_sense_are_refused(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        let refused = |outcome: consort::Result<()>, expected: &str| {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            assert_eq!(error.to_string(), expected);
        };
        refused(group.send(&[1_u8], 1, 0), "there is no rank 1 in a group of 1");
        refused(group.recv(&mut [1_u8], 7, 0), "there is no rank 7 in a group of 1");
        let mut bytes = [0_u8; 7];
        let all = consort::Target::from(&mut bytes[..]);
        let (dtype, rank, tag) = (Dtype::F32, Rank::from(0), Tag::from(0));
        let outgoing = Outgoing { dtype, data: all.slice(0..4).into(), to: rank, tag };
        let incoming = Incoming { dtype, buffer: all, from: Some(rank), tag };
        let odd = "7 bytes are not a whole number of f32";
        refused(group.exchange(None, Some(incoming)).map(drop), odd);
        let overlapping = Incoming { buffer: all.slice(3..7), ..incoming };
        let same = "what is sent and what is received are the same memory";
        refused(group.exchange(Some(outgoing), Some(overlapping)).map(drop), same);
    });
}

fn whoever_waits_for_a_message_hears_that_the_group_was_aborted(case: Case) {
    let job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            std::thread::sleep(SHORT);
            group.abort("enough");
        }
        let error = group.recv(&mut [0_u8], 1 - ctx.rank(), 7).unwrap_err();
        assert_eq!(error.to_string(), "group world: rank 0 has ended it: enough");
    });
    job.expect_all();
}
