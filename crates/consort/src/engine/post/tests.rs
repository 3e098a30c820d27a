//! Matching, with ranks that take turns in one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consort_sys::arena::Arena;
use consort_sys::board::Board;
use consort_sys::dtype::Element;
use proptest::prelude::*;

use super::ends::tests::linked;
use super::*;
use crate::engine::company::Peers;
use crate::engine::lane::Neighbour;
use crate::error::Error;
use crate::group::Rank;
use crate::neighbourhood::AGREEMENT;
use crate::p2p::{Incoming, Outgoing, Tag};

/// Ranks that share memory with each other, in one process.
pub(super) fn posts(world: usize) -> Vec<Post> {
    let patience = Patience::for_ranks(world, 1);
    let arenas: Vec<Arena> =
        (0..world).map(|_| Arena::create(AGREEMENT, 16 << 20).unwrap()).collect();
    let neighbours: Arc<[Neighbour]> = Neighbour::all_in_one(&arenas).into();
    let pieces = |bytes: usize| -> Vec<Piece> {
        arenas.iter().map(|arena| arena.alloc(bytes, Board::BYTES).unwrap()).collect()
    };
    let places = |pieces: &[Piece]| -> Vec<(Arena, usize)> {
        arenas.iter().cloned().zip(pieces.iter().map(Piece::offset)).collect()
    };
    let (boards, blocks) = (pieces(Board::BYTES), pieces(Post::block_bytes(world)));
    let (board_places, block_places) = (places(&boards), places(&blocks));
    // Nobody halts the group: the boards' memory is only looked at.
    boards.into_iter().for_each(Piece::abandon);
    let post = |(me, block)| {
        let alarm = Board::new(me, &board_places, patience).unwrap().alarm();
        let rings = Rings::new(me, &block_places, &vec![None; world]).unwrap();
        let bells = rings.bells.clone().into();
        let peers = Peers::Here { me, alarm, bells, neighbours: neighbours.clone() };
        Post::new(Lookout::new("few", peers), block, rings, patience)
    };
    blocks.into_iter().enumerate().map(post).collect()
}

fn send(post: &Post, to: usize, tag: u32, data: &[u8]) -> Result<()> {
    let (dtype, data, to) = (u8::DTYPE, u8::source(data), Rank(to as u32));
    let outgoing = Outgoing { dtype, data, to, tag: Tag::from(tag) };
    post.carry_out(Exchange::new(Some(outgoing), None), Duration::ZERO).map(drop)
}

fn receive(post: &Post, from: Option<usize>, tag: u32, buffer: &mut [u8]) -> Result<usize> {
    let (dtype, buffer) = (u8::DTYPE, u8::target(buffer));
    let from = from.map(|rank| Rank(rank as u32));
    let incoming = Incoming { dtype, buffer, from, tag: Tag::from(tag) };
    post.carry_out(Exchange::new(None, Some(incoming)), Duration::ZERO).map(|from| from.unwrap())
}

#[test]
fn what_a_thread_puts_away_another_finds() {
    [posts(2), linked(2)].into_iter().for_each(check_what_is_put_away);
}

fn check_what_is_put_away(posts: Vec<Post>) {
    for tag in [1, 2, 3] {
        send(&posts[0], 1, tag, &[tag as u8; 100]).unwrap();
    }
    let mut buffer = [0; 100];
    for tag in [3, 1, 2] {
        receive(&posts[1], Some(0), tag, &mut buffer).unwrap();
        assert_eq!(buffer, [tag as u8; 100]);
    }
    let error = receive(&posts[1], Some(0), 1, &mut buffer).unwrap_err();
    assert!(matches!(error, Error::Late { .. }), "{error}");
}

#[derive(Clone, Debug)]
enum Act {
    Send { from: usize, to: usize, tag: u32, size: usize },
    Receive { at: usize, from: Option<usize>, tag: u32 },
}

fn any_act() -> impl Strategy<Value = Act> {
    let rank = || 0..3_usize;
    prop_oneof![
        (rank(), rank(), 0..3_u32, prop_oneof![0..200_usize, 0..1500_usize])
            .prop_map(|(from, to, tag, size)| Act::Send { from, to, tag, size }),
        (rank(), prop::option::of(rank()), 0..3_u32).prop_map(|(at, from, tag)| Act::Receive {
            at,
            from,
            tag
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// At most 30 messages of at most 25 lines are on their way at once: all fit into a ring.
    #[test]
    fn every_message_is_received_once_in_the_order_of_its_sender_and_tag(
        acts in prop::collection::vec(any_act(), 1..60),
    ) {
        for posts in [posts(3), linked(3)] {
            check_order(&posts, acts.clone())?;
        }
    }
}

fn check_order(posts: &[Post], acts: Vec<Act>) -> Result<(), TestCaseError> {
    let mut sent: BTreeMap<(usize, usize, u32), VecDeque<Vec<u8>>> = BTreeMap::new();
    for (number, act) in acts.into_iter().enumerate() {
        match act {
            Act::Send { from, to, tag, size } => {
                let data: Vec<u8> = (0..size).map(|at| (at * 7 + number) as u8).collect();
                send(&posts[from], to, tag, &data).unwrap();
                sent.entry((from, to, tag)).or_default().push_back(data);
            }
            Act::Receive { at, from, tag } => {
                let mut waiting = (0..3).filter(|&it| from.is_none_or(|from| from == it));
                let first = |from| sent.get(&(from, at, tag)).and_then(VecDeque::front);
                let Some(one) = waiting.find_map(first) else { continue };
                let mut buffer = vec![0; one.len()];
                let received = receive(&posts[at], from, tag, &mut buffer);
                match received {
                    Ok(from) => {
                        let expected = sent.get_mut(&(from, at, tag)).unwrap().pop_front();
                        prop_assert_eq!(expected, Some(buffer));
                    }
                    // Another rank's message came first, and is longer or shorter.
                    Err(Error::MessageDiffers { from, .. }) => {
                        let lost = sent.get_mut(&(from as usize, at, tag)).unwrap().pop_front();
                        prop_assert_ne!(lost.unwrap().len(), buffer.len());
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
        }
    }
    for ((from, to, tag), messages) in sent {
        for message in messages {
            let mut buffer = vec![0; message.len()];
            receive(&posts[to], Some(from), tag, &mut buffer).unwrap();
            prop_assert_eq!(message, buffer);
        }
    }
    Ok(())
}
