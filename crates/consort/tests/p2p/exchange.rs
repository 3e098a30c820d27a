//! What is sent arrives.

use consort::{Element, Incoming, Outgoing, Rank, Tag};
use consort_testkit::{Case, conformance};

use super::{RING, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    messages_of_all_sizes_arrive_as_they_were_sent
    elements_of_every_kind_arrive
    ten_thousand_messages_go_to_and_fro
    two_ranks_send_much_to_each_other_at_once
    four_ranks_pass_much_around_in_a_circle
    a_rank_sends_to_itself
    types_known_at_run_time_are_sent_and_received_with_tags_of_their_own
    messages_of_a_subgroup_stay_in_it
}

fn messages_of_all_sizes_arrive_as_they_were_sent(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let around = |bytes: usize| [bytes - 1, bytes, bytes + 1];
        let sizes = [0, 1, 7, 3 << 20]
            .into_iter()
            .chain([40, 64, RING - 64, RING, 2 * RING].into_iter().flat_map(around));
        for (message, size) in sizes.enumerate() {
            let data: Vec<u8> = coded(message, size).iter().map(|&it| (it % 251) as u8).collect();
            // There and back: each direction has a ring of its own.
            let mut received = room::<u8>(size);
            if ctx.rank() == 0 {
                group.send(&data, 1, 7).unwrap();
                group.recv(&mut received, 1, 7).unwrap();
            } else {
                group.recv(&mut received, 0, 7).unwrap();
                group.send(&received, 0, 7).unwrap();
            }
            assert!(received == data, "{size} bytes differ");
        }
    });
}

fn elements_of_every_kind_arrive(case: Case) {
    fn check<T: Element>(group: &consort::Group, values: [T; 3]) {
        let mut received = room::<T>(3);
        let peer = 1 - group.rank().get();
        group.send_recv(&values, peer, &mut received, peer, 1).unwrap();
        assert_eq!(received, values);
    }
    case.run(2, |ctx| {
        let group = meet(ctx);
        check(&group, [1.5_f32, -0.0, f32::INFINITY]);
        check(&group, [1.5_f64, 2.0, f64::MIN]);
        check(&group, [1_u64, 2, u64::MAX]);
        check(&group, [-1_i16, 2, i16::MIN]);
        check(&group, [true, false, true]);
        check(&group, [consort::Complex64 { re: 1.0, im: -2.0 }; 3]);
    });
}

fn ten_thousand_messages_go_to_and_fro(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = 1 - ctx.rank();
        let mut number = [0_u64];
        for round in 0..10_000 {
            if ctx.rank() == 0 {
                group.send(&[2 * round], peer, 3).unwrap();
                group.recv(&mut number, peer, 3).unwrap();
                assert_eq!(number, [2 * round + 1]);
            } else {
                group.recv(&mut number, peer, 3).unwrap();
                group.send(&[number[0] + 1], peer, 3).unwrap();
            }
        }
    });
}

fn two_ranks_send_much_to_each_other_at_once(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (me, peer) = (ctx.rank(), 1 - ctx.rank());
        for round in 0..3 {
            let mut received = room::<u32>(1 << 20);
            let data = coded(me as usize + 2 * round, 1 << 20);
            group.send_recv(&data, peer, &mut received, peer, 5).unwrap();
            assert!(received == coded(peer as usize + 2 * round, 1 << 20), "round {round}");
        }
    });
}

fn four_ranks_pass_much_around_in_a_circle(case: Case) {
    let job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        let (me, world) = (ctx.rank(), ctx.world());
        let (next, previous) = ((me + 1) % world, (me + world - 1) % world);
        let mut mine = coded(me as usize, 300_000);
        for step in 1..=world {
            let mut theirs = room::<u32>(mine.len());
            group.send_recv(&mine, next, &mut theirs, previous, step).unwrap();
            mine = theirs;
        }
        // After a whole round everyone has its own again.
        assert!(mine == coded(me as usize, 300_000));
    });
    job.expect_all();
}

fn a_rank_sends_to_itself(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        let large = coded(1, RING);
        group.send(&large, 0, 1).unwrap();
        group.send(&[1_u8], 0, 2).unwrap();
        group.send(&[2_u8], 0, 2).unwrap();
        let (mut small, mut received) = ([0_u8], room::<u32>(RING));
        for expected in [1, 2] {
            assert_eq!(group.recv_any(&mut small, 2).unwrap(), group.rank());
            assert_eq!(small, [expected]);
        }
        group.recv(&mut received, 0, 1).unwrap();
        assert!(received == large);
        group.send_recv(&large, 0, &mut received, 0, 9).unwrap();
        assert!(received == large);
    });
}

fn types_known_at_run_time_are_sent_and_received_with_tags_of_their_own(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (me, peer) = (ctx.rank(), 1 - ctx.rank());
        let (data, mut received) = ([f32::from(me as u8); 4], [0.0; 4]);
        let outgoing = Outgoing {
            dtype: f32::DTYPE,
            data: f32::source(&data),
            to: Rank::from(peer),
            tag: Tag::from(me),
        };
        let incoming = Incoming {
            dtype: f32::DTYPE,
            buffer: f32::target(&mut received),
            from: None,
            tag: Tag::from(peer),
        };
        let from = group.exchange(Some(outgoing), Some(incoming)).unwrap();
        assert_eq!(from, Some(Rank::from(peer)));
        assert_eq!(received, [f32::from(peer as u8); 4]);
        assert_eq!(group.exchange(None, None).unwrap(), None);
    });
}

fn messages_of_a_subgroup_stay_in_it(case: Case) {
    let job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        let part = group.new_group(&[2, 0]).unwrap();
        let mut received = [0_u8];
        match ctx.rank() {
            0 => {
                group.send(&[1_u8], 2, 7).unwrap();
                part.unwrap().send(&[2_u8], 0, 7).unwrap();
            }
            2 => {
                part.unwrap().recv_any(&mut received, 7).unwrap();
                assert_eq!(received, [2]);
                group.recv(&mut received, 0, 7).unwrap();
                assert_eq!(received, [1]);
            }
            _ => assert!(part.is_none()),
        }
    });
    job.expect_all();
}
