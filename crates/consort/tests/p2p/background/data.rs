//! What is sent arrives.

use std::sync::Arc;

use consort::{Dtype, Incoming, Message, Outgoing, OwnedMessage, Rank, Work};
use consort_testkit::{Case, conformance};

use super::left_alone;
use crate::{RING, coded, meet, room};

conformance! { [shm tcp mixed in_process mpi]
    messages_of_all_sizes_arrive_as_they_were_sent
    ranks_pass_much_around_in_a_circle
    borrowed_buffers_are_sent_and_received_when_a_scope_ends
    a_rank_hears_from_anybody
    a_rank_sends_to_itself
    one_buffer_goes_to_several_ranks_at_once
    messages_of_a_subgroup_stay_in_it
    types_known_at_run_time_are_sent_and_received
}

fn messages_of_all_sizes_arrive_as_they_were_sent(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (me, peer) = (ctx.rank() as usize, 1 - ctx.rank());
        let around = |bytes: usize| [bytes - 1, bytes, bytes + 1];
        let sizes = [0, 1, 7, 1 << 20]
            .into_iter()
            .chain([40, 64, RING - 64, RING, 2 * RING].into_iter().flat_map(around));
        let bytes = |message: usize, size: usize| -> Vec<u8> {
            coded(message, size).iter().map(|&it| (it % 251 + it / 251) as u8).collect()
        };
        for (message, size) in sizes.enumerate() {
            let sent = group.send_async(bytes(2 * message + me, size), peer, 7).unwrap();
            let received = group.recv_async(room::<u8>(size), peer, 7).unwrap();
            // By the progress thread, or by this one.
            let (sent, received) = match message % 2 {
                0 => (left_alone(sent), left_alone(received)),
                _ => (sent.wait(), received.wait()),
            };
            assert!(received.unwrap() == bytes(2 * message + 1 - me, size), "{size} bytes differ");
            assert!(sent.unwrap() == bytes(2 * message + me, size), "what was sent has changed");
        }
    });
}

fn ranks_pass_much_around_in_a_circle(case: Case) {
    let job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        let (me, world) = (ctx.rank(), ctx.world());
        let (next, previous) = ((me + 1) % world, (me + world - 1) % world);
        let mut mine = coded(me as usize, 300_000);
        for step in 1..=world {
            let sent = group.send_async(mine, next, step).unwrap();
            let received = group.recv_async(room::<u32>(300_000), previous, step).unwrap();
            mine = received.wait().unwrap();
            sent.wait().unwrap();
        }
        assert!(mine == coded(me as usize, 300_000));
    });
    job.expect_all();
}

fn borrowed_buffers_are_sent_and_received_when_a_scope_ends(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (me, world) = (ctx.rank(), ctx.world());
        let (next, previous) = ((me + 1) % world, (me + world - 1) % world);
        let data = coded(me as usize, RING);
        let (mut theirs, mut sum) = (room::<u32>(RING), [1_u64]);
        group
            .scope(|s| {
                s.recv(&mut theirs, previous, 7)?;
                s.all_reduce(&mut sum, consort::ReduceOp::Sum)?;
                s.send(&data, next, 7)?;
                s.send(&data[..3], next, 8)
            })
            .unwrap();
        assert!(theirs == coded(previous as usize, RING));
        assert_eq!(sum, [3]);
        let mut few = [0; 3];
        group.scope(|s| s.recv(&mut few, previous, 8)).unwrap();
        assert_eq!(few, theirs[..3]);
        assert!(group.scope(|s| s.send(&data, 3, 7)).is_err());
        group.barrier().unwrap();
    });
}

fn a_rank_hears_from_anybody(case: Case) {
    let job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        // With one tag they are short, with the other long.
        let size = |tag: usize| [5, RING / 2][tag];
        if ctx.rank() > 0 {
            for message in 0..20 {
                let data = coded(ctx.rank() as usize * 20 + message, size(message / 10));
                group.send_async(data, 0, message as u32 / 10).unwrap().wait().unwrap();
            }
            return;
        }
        let receive = |message: usize| {
            let buffer = room::<u32>(size(message / 30));
            group.recv_any_async(buffer, message as u32 / 30).unwrap()
        };
        let mut heard = [0; 4];
        for work in (0..60).map(receive).collect::<Vec<_>>() {
            let (received, from) = work.wait().unwrap();
            let message = from.index() * 20 + heard[from.index()];
            assert!(
                received == coded(message, received.len()),
                "{from}: its messages are in order"
            );
            heard[from.index()] += 1;
        }
        assert_eq!(heard, [0, 20, 20, 20]);
    });
    job.expect_all();
}

fn a_rank_sends_to_itself(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        let first = group.recv_async(room::<u32>(RING), 0, 1).unwrap();
        let any = group.recv_any_async(room::<u32>(3), 1).unwrap();
        assert!(!first.is_done() && !any.is_done());
        let sent = group.send_async(coded(1, RING), 0, 1).unwrap();
        group.send(&coded(2, 3), 0, 1).unwrap();
        assert!(left_alone(first).unwrap() == coded(1, RING));
        assert_eq!(any.wait().unwrap(), (coded(2, 3), group.rank()));
        assert!(sent.is_done());
        let sent: Vec<Work<_>> =
            (0..10).map(|it| group.send_async(coded(it, 9), 0, 2).unwrap()).collect();
        for (message, work) in sent.into_iter().enumerate() {
            let received = group.recv_async(room::<u32>(9), 0, 2).unwrap();
            assert!(received.is_done());
            assert_eq!((received.wait().unwrap(), work.wait().unwrap()), {
                (coded(message, 9), coded(message, 9))
            });
        }
    });
}

fn one_buffer_goes_to_several_ranks_at_once(case: Case) {
    let job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() > 0 {
            let received = group.recv_async(room::<u32>(RING), 0, 7).unwrap();
            return assert!(left_alone(received).unwrap() == coded(0, RING));
        }
        let data = Arc::new(coded(0, RING));
        let works = [1, 2].map(|to| group.send_async(data.clone(), to, 7).unwrap());
        for work in works {
            assert!(Arc::ptr_eq(&work.wait().unwrap(), &data));
        }
    });
    job.expect_all();
}

fn messages_of_a_subgroup_stay_in_it(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let part = group.new_group(&[1, 0]).unwrap().unwrap();
        if ctx.rank() == 0 {
            let both = [group.send_async(vec![1_u8], 1, 7), part.send_async(vec![2_u8], 0, 7)];
            return both.into_iter().for_each(|work| drop(work.unwrap().wait().unwrap()));
        }
        let in_part = part.recv_any_async(vec![0_u8], 7).unwrap();
        let in_all = group.recv_async(vec![0_u8], 0, 7).unwrap();
        assert_eq!(in_all.wait().unwrap(), [1]);
        assert_eq!(in_part.wait().unwrap(), (vec![2], Rank::from(1)));
    });
}

/// A message whose type is known only at run time.
struct Dynamic {
    bytes: Vec<u8>,
    dtype: Dtype,
    peer: Option<Rank>,
    sends: bool,
}

impl OwnedMessage for Dynamic {
    fn message(&mut self) -> Message<'_> {
        let Self { bytes, dtype, peer, sends } = self;
        let (dtype, tag) = (*dtype, 7.into());
        match sends {
            true => {
                let (data, to) = ((&bytes[..]).into(), peer.expect("it goes to somebody"));
                Message::Out(Outgoing { dtype, data, to, tag })
            }
            false => {
                let buffer = (&mut bytes[..]).into();
                Message::In(Incoming { dtype, buffer, from: *peer, tag })
            }
        }
    }
}

fn types_known_at_run_time_are_sent_and_received(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let peer = Rank::from(1 - ctx.rank());
        let message = |sends, bytes, dtype, peer| Dynamic { bytes, dtype, peer, sends };
        let data: Vec<u8> = (0..RING * 2).map(|at| (at % 251) as u8).collect();
        let sent = group.message_async(message(true, data.clone(), Dtype::F64, Some(peer)));
        let received = group.message_async(message(false, vec![0; RING * 2], Dtype::F64, None));
        let (received, from) = received.unwrap().wait().unwrap();
        assert_eq!(from, Some(peer));
        assert!(received.bytes == data);
        assert_eq!(sent.unwrap().wait().unwrap().1, None);
        let odd = group.message_async(message(true, vec![0; 7], Dtype::F32, Some(peer)));
        let failed = odd.unwrap_err();
        assert_eq!(failed.to_string(), "7 bytes are not a whole number of f32");
        assert_eq!(failed.buffer.bytes, [0; 7]);
    });
}
