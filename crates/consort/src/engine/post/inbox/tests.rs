use consort_sys::arena::Arena;
use consort_sys::dtype::{Dtype, Element};
use consort_sys::memory::Memory;
use consort_sys::ring::{Outlet, Rings, Sending};

use super::*;
use crate::engine::post::exchange::Exchange;
use crate::group::Rank;
use crate::neighbourhood::AGREEMENT;
use crate::p2p::{Incoming, Tag};

#[test]
fn a_message_that_there_is_no_memory_for_is_an_error() {
    let has = Memory::here();
    for bytes in [isize::MAX as usize, (has.limit() as usize).saturating_mul(2)] {
        let error = Parcel::empty(Envelope { bytes, tag: 0, kind: 0 }).unwrap_err();
        assert!(error.to_string().starts_with("no memory for "), "{error}");
    }
}

#[test]
fn what_nobody_has_asked_for_is_put_away_up_to_a_limit_and_then_left_where_it_is() {
    let (mut outlet, mut inbox) = ring(10 * (100 + PARCEL));
    for tag in 0..15 {
        send(&mut outlet, tag, 100);
    }
    // What is behind the limit is not found, however often one looks.
    for _ in 0..2 {
        assert_eq!(receive(&mut inbox, 14, 100), None);
        assert_eq!((inbox.early.len(), inbox.kept), (10, inbox.most));
    }
    assert!(inbox.take_news(), "some were put away");
    assert!(!inbox.take_news());
    // Whoever makes room has the others look again.
    assert_eq!(receive(&mut inbox, 3, 100), Some(3));
    assert!(inbox.take_news());
    for tag in [0, 10, 14] {
        assert_eq!(receive(&mut inbox, tag, 100), Some(tag as u8), "{tag}");
        receive(&mut inbox, 12, 100);
    }
    for tag in [1, 2, 4, 5, 6, 7, 8, 9, 11, 13] {
        assert_eq!(receive(&mut inbox, tag, 100), Some(tag as u8), "{tag}");
    }
    assert_eq!((inbox.early.len(), inbox.kept), (0, 0));
}

#[test]
fn messages_without_data_do_not_pile_up_without_limit_either() {
    let (mut outlet, mut inbox) = ring(10 * PARCEL);
    for tag in 0..20 {
        send(&mut outlet, tag, 0);
    }
    assert_eq!(receive(&mut inbox, 19, 0), None);
    assert_eq!(inbox.early.len(), 10);
}

#[test]
fn a_message_beyond_the_limit_is_for_whoever_asks_for_it() {
    let (mut outlet, mut inbox) = ring(1000);
    send(&mut outlet, 1, 2000);
    send(&mut outlet, 2, 10);
    assert_eq!(receive(&mut inbox, 2, 10), None);
    assert_eq!(receive(&mut inbox, 1, 2000), Some(1));
    assert_eq!(receive(&mut inbox, 2, 10), Some(2));
}

#[test]
fn what_a_rank_sends_to_itself_has_no_limit() {
    let mut inbox = Inbox::new(0, None, 10);
    let envelope = Envelope { bytes: 100, tag: 1, kind: Dtype::U8.code() };
    inbox.put(envelope, (&[1; 100][..]).into()).unwrap();
    assert_eq!(receive(&mut inbox, 1, 100), Some(1));
}

/// A ring from rank 0 to rank 1, of whose messages so much is put away.
fn ring(most: usize) -> (Outlet, Inbox) {
    let places = [(); 2].map(|()| {
        let arena = Arena::create(AGREEMENT, 4 << 20).unwrap();
        let block = arena.alloc(Rings::block_bytes(2), 64).unwrap();
        let offset = block.offset();
        block.abandon();
        (arena, offset)
    });
    let [mut one, mut other] = [0, 1].map(|me| Rings::new(me, &places, &[None; 2]).unwrap());
    (one.outlets.remove(1), Inbox::new(0, Some(Inlet::Ring(other.inlets.remove(0))), most))
}

fn send(outlet: &mut Outlet, tag: u32, len: usize) {
    let data = vec![tag as u8; len];
    let mut sending = Sending::new(Envelope { bytes: len, tag, kind: Dtype::U8.code() });
    assert_eq!(outlet.go_on(&mut sending, (&data[..]).into()).unwrap(), Progress::Done);
}

/// What the message with a tag says, if it is there.
fn receive(inbox: &mut Inbox, tag: u32, len: usize) -> Option<u8> {
    let mut data = vec![0_u8; len];
    let (buffer, from) = (u8::target(&mut data), Some(Rank(0)));
    let incoming = Incoming { dtype: Dtype::U8, buffer, from, tag: Tag::from(tag) };
    let mut exchange = Exchange::new(None, Some(incoming));
    let arrival = exchange.arrival.as_mut().unwrap();
    let progress = inbox.go_on(arrival).unwrap();
    if progress != Progress::Done {
        return None;
    }
    assert!(arrival.refused().is_none() && data.iter().all(|&byte| byte == tag as u8));
    Some(tag as u8)
}
