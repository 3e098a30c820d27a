//! Rings between two ranks that are threads, or take turns.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;

use super::envelope::Where;
use super::*;
use crate::arena::AGREEMENT;
use crate::arena::Piece;
use crate::reach::Beacon;
use crate::view::Target;

#[test]
fn messages_of_all_sizes_arrive_as_they_were_sent() {
    let (mut one, mut other) = pair();
    let around = |size: usize| [size - 1, size, size + 1];
    let sizes: Vec<usize> = [0, 1, 17, 1 << 20]
        .into_iter()
        .chain(
            [Rings::INLINE, LINE, 2 * LINE, Rings::BYTES - LINE, Rings::BYTES].map(around).concat(),
        )
        .collect();
    for (tag, size) in (0..).zip(sizes) {
        let data = coded(tag, size);
        let mut message = sending(tag, 3, &data);
        let mut target = vec![0; size];
        loop {
            let sent = one.outlets[1].go_on(&mut message, (&data[..]).into()).unwrap();
            let envelope = other.inlets[0].front().unwrap().expect("its beginning has arrived");
            assert_eq!(envelope, Envelope { bytes: size, tag, kind: 3 });
            let taken = other.inlets[0].take(Target::from(&mut target[..])).unwrap();
            assert_eq!(sent, taken, "what is sent can be taken at once");
            if taken == Progress::Done {
                break;
            }
        }
        assert!(target == data, "{size} bytes differ");
        assert_eq!(other.inlets[0].front().unwrap(), None);
    }
}

#[test]
fn medium_messages_are_fetched_from_where_they_are() {
    let (mut one, mut other) = pair_in_reach();
    let Range { start, end } = Rings::FETCHED;
    for (tag, size) in (0..).zip([start - 1, start, start + 1, (1 << 20) + 1, end - 1, end]) {
        let data = coded(tag, size);
        let mut message = sending(tag, 3, &data);
        let mut target = vec![0; size];
        let mut send = || one.outlets[1].go_on(&mut message, (&data[..]).into()).unwrap();
        send();
        let inlet = &mut other.inlets[0];
        assert_eq!(inlet.front().unwrap(), Some(Envelope { bytes: size, tag, kind: 3 }));
        if Rings::FETCHED.contains(&size) {
            assert_eq!(send(), Progress::Stuck, "the other has not fetched it");
        }
        while inlet.take(Target::from(&mut target[..])).unwrap() != Progress::Done {
            send();
        }
        if Rings::FETCHED.contains(&size) {
            assert_eq!(send(), Progress::Done);
        }
        assert!(target == data, "{size} bytes differ");
        assert_eq!(inlet.front().unwrap(), None);
    }
}

#[test]
fn a_message_that_nobody_wants_to_fetch_is_given_back() {
    let (mut one, mut other) = pair_in_reach();
    let data = coded(1, Rings::FETCHED.start);
    let mut message = sending(1, 0, &data);
    let mut send = || one.outlets[1].go_on(&mut message, (&data[..]).into()).unwrap();
    assert_eq!((send(), send()), (Progress::Moved, Progress::Stuck));
    assert!(other.inlets[0].front().unwrap().is_some());
    assert_eq!(other.inlets[0].skip().unwrap(), Progress::Done);
    assert_eq!(send(), Progress::Done);
}

#[test]
fn an_envelope_tells_where_its_message_is() {
    let envelope = Envelope { bytes: 40_000, tag: 1, kind: 9 };
    for place in [Where::Here, Where::There(0), Where::There(u64::MAX)] {
        assert_eq!(
            Envelope::from_bytes(envelope.to_bytes(5, place), 5).unwrap(),
            (envelope, place)
        );
    }
}

#[test]
fn no_more_is_moved_at_once_than_a_ring_holds() {
    let (mut one, mut other) = pair();
    let (data, mut target) = (coded(1, 5 * Rings::BYTES), vec![0; 5 * Rings::BYTES]);
    let mut message = sending(1, 0, &data);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while other.inlets[0].take(Target::from(&mut target[..])).unwrap() != Progress::Done {
                std::thread::yield_now();
            }
        });
        let mut goes = 1;
        while one.outlets[1].go_on(&mut message, (&data[..]).into()).unwrap() != Progress::Done {
            goes += 1;
        }
        reader.join().unwrap();
        assert!(goes >= 5, "{goes}");
    });
    assert!(target == data);
}

#[test]
fn a_ring_holds_small_messages_until_it_is_full() {
    let (mut one, mut other) = pair();
    for round in 0..3 {
        let held = (0..)
            .take_while(|&tag| {
                let sent = one.outlets[1].go_on(&mut sending(tag, 0, &[7]), (&[7][..]).into());
                sent.unwrap() == Progress::Done
            })
            .count();
        assert_eq!(held, LINES as usize, "round {round}");
        for tag in 0..LINES {
            assert_eq!(other.inlets[0].front().unwrap().unwrap().tag, tag);
            assert_eq!(other.inlets[0].skip().unwrap(), Progress::Done);
        }
    }
}

#[test]
fn what_is_left_in_a_ring_is_there_after_its_writer_has_gone() {
    let (mut one, mut other) = pair();
    let data = [1, 2, 3];
    one.outlets[1].go_on(&mut sending(5, 0, &data), (&data[..]).into()).unwrap();
    one.bells[0].leave();
    one.outlets.iter_mut().for_each(Outlet::abandon);
    assert!(other.bells[0].has_left() && !other.bells[1].has_left());
    let mut target = [0; 3];
    assert_eq!(other.inlets[0].take(Target::from(&mut target[..])).unwrap(), Progress::Done);
    assert_eq!(target, [1, 2, 3]);
}

#[test]
fn two_threads_stream_to_each_other_and_sleep_in_between() {
    let (one, other) = pair();
    let sizes = [0, 8, 100_000, 64, 41, 300_000, 1, 1, 65_536];
    let rank = |me: usize, mut rings: Rings| {
        let peer = 1 - me;
        for (tag, size) in (0..).zip(sizes.into_iter().cycle().take(200)) {
            let (data, mut target) = (coded(tag, size), vec![0; size]);
            let mut message = sending(tag, 0, &data);
            let (mut sent, mut taken) = (Progress::Stuck, Progress::Stuck);
            let Rings { outlets, inlets, bells } = &mut rings;
            let mut go_on = || {
                if sent != Progress::Done {
                    sent = outlets[peer].go_on(&mut message, (&data[..]).into()).unwrap();
                }
                if taken != Progress::Done {
                    taken = inlets[peer].take(Target::from(&mut target[..])).unwrap();
                }
                (sent, taken) == (Progress::Done, Progress::Done)
            };
            while !go_on() {
                bells[me].doze(&mut go_on, Duration::from_secs(60));
            }
            assert!(target == data, "{size} bytes differ");
        }
        // The other may still read.
        rings.outlets.iter_mut().for_each(Outlet::abandon);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rank(0, one));
        scope.spawn(|| rank(1, other));
    });
}

#[test]
fn envelopes_that_cannot_be_are_refused() {
    let damage: [(usize, &[u8], &str); 2] = [
        (8, &[9], "message 9 came instead of 0"),
        (7, &[0x80], "message 0 claims to have 9223372036854775809 bytes"),
    ];
    for (at, bytes, complaint) in damage {
        let (mut one, mut other) = pair();
        one.outlets[1].go_on(&mut sending(0, 0, &[7]), (&[7][..]).into()).unwrap();
        let block = &one.bells[0].block;
        let ring = block.place(1).load(Ordering::Relaxed) as usize;
        block.arena().view(ring + at, bytes.len()).unwrap().copy_from(bytes.into());
        let error = other.inlets[0].front().unwrap_err().to_string();
        assert_eq!(error, format!("its memory is damaged: {complaint}"));
    }
}

#[test]
fn a_ring_that_is_nowhere_is_refused() {
    let (mut one, mut other) = pair();
    one.outlets[1].go_on(&mut sending(0, 0, &[7]), (&[7][..]).into()).unwrap();
    one.bells[0].block.place(1).store(u64::MAX - 63, Ordering::Relaxed);
    let error = other.inlets[0].front().unwrap_err().to_string();
    assert!(error.contains("there is no ring at"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_messages_in_any_rhythm_come_out_as_they_went_in(
        sizes in prop::collection::vec(prop_oneof![0_usize..130, 0_usize..200_000], 1..20),
        rhythm in prop::collection::vec((any::<bool>(), any::<bool>()), 1..50),
    ) {
        let (mut one, mut other) = pair();
        let messages: Vec<Vec<u8>> =
            (0..).zip(&sizes).map(|(tag, &size)| coded(tag, size)).collect();
        let mut going: VecDeque<(Sending, &[u8])> = (0..)
            .zip(&messages)
            .map(|(tag, data)| (sending(tag, tag as u8, data), &data[..]))
            .collect();
        let mut received: Vec<Option<Vec<u8>>> = Vec::new();
        let mut target = None;
        let mut rhythm = rhythm.into_iter().cycle();
        let mut stuck = true;
        while received.len() < messages.len() {
            let (send, skip) = rhythm.next().unwrap();
            if let Some((message, data)) = going.front_mut().filter(|_| send || stuck)
                && one.outlets[1].go_on(message, (*data).into()).unwrap() == Progress::Done
            {
                going.pop_front();
            }
            stuck = true;
            if let Some(envelope) = other.inlets[0].front().unwrap() {
                prop_assert_eq!(envelope.tag as usize, received.len());
                let whole = target.get_or_insert_with(|| (!skip).then(|| vec![0; envelope.bytes]));
                let done = match whole {
                    Some(target) => other.inlets[0].take(Target::from(&mut target[..])).unwrap(),
                    None => other.inlets[0].skip().unwrap(),
                };
                if done == Progress::Done {
                    received.push(target.take().flatten());
                    stuck = false;
                }
            }
        }
        for (received, sent) in received.iter().zip(&messages) {
            prop_assert!(received.as_ref().is_none_or(|received| received == sent));
        }
        prop_assert_eq!(other.inlets[0].front().unwrap(), None);
    }
}

/// A message before it is sent.
fn sending(tag: u32, kind: u8, data: &[u8]) -> Sending {
    Sending::new(Envelope { bytes: data.len(), tag, kind })
}

/// Two ranks, each with an arena of its own that the other has mapped.
fn pair() -> (Rings, Rings) {
    pair_with(None)
}

/// The same, and each can read the other's memory: it is the same process.
fn pair_in_reach() -> (Rings, Rings) {
    let beacon = Beacon::light().unwrap();
    pair_with(Reach::try_out(std::process::id(), beacon.sight()))
}

fn pair_with(reach: Option<Reach>) -> (Rings, Rings) {
    let arenas = [(); 2].map(|()| Arena::create(AGREEMENT, 16 << 20).unwrap());
    let blocks = arenas.each_ref().map(|arena| arena.alloc(Rings::block_bytes(2), LINE).unwrap());
    let rings = |me: usize| {
        let places = [0, 1].map(|rank| {
            let arena = &arenas[rank];
            let peers =
                || Arena::open(AGREEMENT, arena.as_fd().try_clone_to_owned().unwrap()).unwrap();
            (if rank == me { arena.clone() } else { peers() }, blocks[rank].offset())
        });
        Rings::new(me, &places, &[reach; 2]).unwrap()
    };
    let both = (rings(0), rings(1));
    // The rings keep the arenas; the blocks stay as they are.
    blocks.into_iter().for_each(Piece::abandon);
    both
}

/// Bytes that tell where they are and in which message.
fn coded(message: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + message as usize * 7 + 1) as u8).collect()
}
