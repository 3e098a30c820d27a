//! Who gets which message, and when.

use consort::Error;
use consort_testkit::{Case, conformance};

use super::{RING, capacity, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    a_rank_hears_all_others_in_turn
    tags_are_received_in_another_order_than_they_were_sent
    a_message_from_anybody_may_be_long
    what_was_sent_can_be_received_after_its_sender_has_left
}

fn tags_are_received_in_another_order_than_they_were_sent(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let size = |tag: u32| tag as usize + if tag.is_multiple_of(2) { 0 } else { RING / 4 };
        let tags = 0..20_u32;
        if ctx.rank() == 0 {
            for tag in tags {
                group.send(&coded(tag as usize, size(tag)), 1, tag).unwrap();
                group.send(&coded(tag as usize + 100, size(tag)), 1, tag).unwrap();
            }
        } else {
            for (tag, message) in tags.rev().flat_map(|tag| [(tag, 0), (tag, 100)]) {
                let mut received = room::<u32>(size(tag));
                group.recv(&mut received, 0, tag).unwrap();
                assert!(received == coded(tag as usize + message, size(tag)), "tag {tag}");
            }
        }
    });
}

fn a_rank_hears_all_others_in_turn(case: Case) {
    let job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() > 0 {
            for message in 0..50 {
                group.send(&[ctx.rank(), message], 0, 9).unwrap();
            }
        }
        // All messages are there.
        group.barrier().unwrap();
        if ctx.rank() > 0 {
            return Vec::new();
        }
        let mut next = [0; 4];
        (0..150)
            .map(|_| {
                let mut received = [0; 2];
                let from = group.recv_any(&mut received, 9).unwrap();
                assert_eq!(received, [from.get(), next[from.index()]], "its messages are in order");
                next[from.index()] += 1;
                from.get()
            })
            .collect()
    });
    let heard = &job.expect_all()[0];
    for turn in heard.chunks(3) {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, [1, 2, 3]);
    }
}

fn a_message_from_anybody_may_be_long(case: Case) {
    let job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() > 0 {
            return group.send(&coded(ctx.rank() as usize, 500_000), 0, 1).unwrap();
        }
        let mut heard: Vec<u32> = (1..3)
            .map(|_| {
                let mut received = room::<u32>(500_000);
                let from = group.recv_any(&mut received, 1).unwrap();
                assert!(received == coded(from.index(), 500_000));
                from.get()
            })
            .collect();
        heard.sort_unstable();
        assert_eq!(heard, [1, 2]);
    });
    job.expect_all();
}

fn what_was_sent_can_be_received_after_its_sender_has_left(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        // Ranks that have met before need nobody to answer.
        group.all_gather(&[1_u8], &mut [0; 3]).unwrap();
        if ctx.rank() > 0 {
            group.send(&coded(ctx.rank() as usize, 1000), 0, 1).unwrap();
            drop(group);
            ctx.reach("left");
            return;
        }
        let _: String = ctx.told("they have left");
        let mut received = room::<u32>(1000);
        for from in [2, 1] {
            group.recv(&mut received, from, 1).unwrap();
            assert!(received == coded(from as usize, 1000));
        }
        let error = group.recv(&mut received, 1, 1).unwrap_err();
        assert!(matches!(&error, Error::Left { ranks, .. } if ranks == &[1]), "{error}");
        let error = group.recv_any(&mut received, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "group world: ranks [1, 2] have left it, so rank 0 waited in vain in recv of 1000 u32 \
             from any rank with tag 1"
        );
        // What fits into the ring can still be sent, but nobody will take the rest.
        let error = group.send(&room::<u32>(capacity(ctx)), 2, 1).unwrap_err();
        assert!(matches!(error, Error::Left { .. }), "{error}");
    });
    job.await_point(1, "left");
    job.await_point(2, "left");
    job.tell("they have left", &"yes");
    job.expect_all();
}
