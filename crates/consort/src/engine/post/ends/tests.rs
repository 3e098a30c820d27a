//! Messages that go through something else than rings: lists that ranks of one process share.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use consort_sys::dtype::Element;
use consort_sys::wait::Patience;

use super::*;
use crate::backend::Host;
use crate::engine::company::tests::Member;
use crate::engine::lane::tests::lanes;
use crate::engine::post::{Exchange, Post, lock};
use crate::engine::road::Road;
use crate::engine::sleep::Sleep;
use crate::error::Error;
use crate::group::{Group, Rank};
use crate::p2p::{Incoming, Tag};

/// What one rank has sent to another.
#[derive(Debug, Default)]
struct Link {
    letters: VecDeque<Letter>,
    /// Why nothing moves any more.
    broken: Option<&'static str>,
}

#[derive(Debug)]
struct Letter {
    envelope: Envelope,
    /// What of it has been sent and not taken.
    data: VecDeque<u8>,
    sent: usize,
    taken: usize,
    /// Whether its sender is done with it.
    ended: bool,
}

impl Link {
    fn check(&self) -> Result<(), Broken> {
        self.broken.map_or(Ok(()), |why| Err(Broken::Lost(why.to_owned())))
    }
}

/// By sender, then by receiver.
type Links = Vec<Vec<Arc<Mutex<Link>>>>;

/// An end of a link, and where the rank at its other end sleeps.
#[derive(Debug)]
struct End {
    link: Arc<Mutex<Link>>,
    other: Arc<Pillow>,
}

impl Outflow for End {
    fn begin(&mut self, envelope: Envelope) -> Result<bool, Broken> {
        let mut link = lock(&self.link);
        link.check()?;
        if link.letters.len() == MOST {
            return Ok(false);
        }
        link.letters.push_back(Letter {
            envelope,
            data: VecDeque::new(),
            sent: 0,
            taken: 0,
            ended: false,
        });
        drop(link);
        self.other.ring();
        Ok(true)
    }

    fn go_on(&mut self, data: Source<'_>) -> Result<Progress, Broken> {
        let mut link = lock(&self.link);
        link.check()?;
        let letter = link.letters.back_mut().expect("it has begun");
        let bytes = (data.len() - letter.sent).min(ROOM - letter.data.len()).min(PIECE);
        let mut piece = vec![0; bytes];
        let part = data.slice(letter.sent..letter.sent + bytes);
        Target::from(&mut piece[..]).copy_from(part);
        letter.data.extend(piece);
        letter.sent += bytes;
        letter.ended = letter.sent == data.len();
        let is_done = letter.ended;
        drop(link);
        self.other.ring();
        Ok(progress(bytes, is_done))
    }
}

impl Inflow for End {
    fn front(&mut self) -> Result<Option<Envelope>, Broken> {
        let link = lock(&self.link);
        link.check()?;
        Ok(link.letters.front().map(|letter| letter.envelope))
    }

    fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken> {
        self.drain(|start, piece| {
            target.slice(start..start + piece.len()).copy_from(Source::from(piece));
        })
    }

    fn skip(&mut self) -> Result<Progress, Broken> {
        self.drain(|_, _| {})
    }
}

impl End {
    fn drain(&mut self, give: impl FnOnce(usize, &[u8])) -> Result<Progress, Broken> {
        let mut link = lock(&self.link);
        link.check()?;
        let Some(letter) = link.letters.front_mut() else { return Ok(Progress::Stuck) };
        let piece: Vec<u8> = letter.data.drain(..).collect();
        give(letter.taken, &piece);
        letter.taken += piece.len();
        let is_done = letter.ended && letter.data.is_empty();
        if is_done {
            link.letters.pop_front();
        }
        drop(link);
        self.other.ring();
        Ok(progress(piece.len(), is_done))
    }
}

fn progress(bytes: usize, is_done: bool) -> Progress {
    match bytes {
        _ if is_done => Progress::Done,
        0 => Progress::Stuck,
        _ => Progress::Moved,
    }
}

/// Where the threads of a rank sleep. It counts how often it was rung.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pillow {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Sleep for Pillow {
    fn doze(&self, look: &mut dyn FnMut() -> bool, limit: Duration) {
        let seen = *lock(&self.rings);
        if !look() {
            let rings = lock(&self.rings);
            drop(self.rung.wait_timeout_while(rings, limit, |rings| *rings == seen).unwrap());
        }
    }

    fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }
}

/// Ranks of one process that share links and no memory.
pub(in crate::engine::post) fn linked(world: usize) -> Vec<Post> {
    linked_by(world).0
}

/// The same, with the links from each of them to each other.
fn linked_by(world: usize) -> (Vec<Post>, Links) {
    let links: Links = (0..world).map(|_| (0..world).map(|_| Arc::default()).collect()).collect();
    let pillows: Vec<Arc<Pillow>> = (0..world).map(|_| Arc::default()).collect();
    let post = |(me, member): (usize, Member)| {
        let end = |from: usize, to: usize, other: usize| {
            Box::new(End { link: links[from][to].clone(), other: pillows[other].clone() })
        };
        let ends = (0..world).map(|rank| {
            let (outflow, inflow): (Box<dyn Outflow>, Box<dyn Inflow>) =
                (end(me, rank, rank), end(rank, me, rank));
            (rank != me).then_some((outflow.into(), inflow.into()))
        });
        let rest: Arc<dyn Sleep> = pillows[me].clone();
        Post::over(member.lookout(), ends, rest.into(), Patience::for_ranks(world, 1))
    };
    (Member::several(world).into_iter().enumerate().map(post).collect(), links)
}

/// Two ranks whose messages go through links.
fn groups() -> Vec<Group> {
    let (lanes, _) = lanes(2);
    let group = |((rank, lane), post)| {
        let fake = Group::fake(rank, 2).unwrap();
        let patience = Patience::for_ranks(8, 1);
        let host =
            Host::new("lane", Road::from(lane), Arc::new(post), patience, fake.shared.job.clone());
        fake.with_backend(Arc::new(host)).within(LONG)
    };
    (0..).zip(lanes).zip(linked(2)).map(group).collect()
}

#[test]
fn messages_longer_than_there_is_room_for_go_through_while_both_sides_move_them() {
    thread::scope(|scope| {
        for group in groups() {
            scope.spawn(move || {
                let (me, other) = (group.rank().get(), 1 - group.rank().get());
                let (mine, mut theirs) = (vec![me; 10_000], vec![7; 10_000]);
                group.send_recv(&mine, other, &mut theirs, other, 1).unwrap();
                assert!(theirs.iter().all(|&it| it == other));
                let sent = group.send_async(mine, other, 2).unwrap();
                let received = group.recv_async(vec![7_u32; 10_000], other, 2).unwrap();
                assert!(received.wait().unwrap().iter().all(|&it| it == other));
                sent.wait().unwrap();
            });
        }
    });
}

#[test]
fn whoever_has_no_room_waits_until_there_is_some() {
    let groups = groups();
    thread::scope(|scope| {
        let (one, other) = (&groups[0], &groups[1]);
        scope.spawn(move || {
            for number in 0..3 * MOST as u64 {
                one.send(&[number], 1, 0).unwrap();
            }
        });
        for number in 0..3 * MOST as u64 {
            let mut received = [0];
            other.recv(&mut received, 0, 0).unwrap();
            assert_eq!(received, [number]);
        }
    });
}

#[test]
fn a_link_that_is_lost_ends_the_group_and_the_error_says_why() {
    let (posts, links) = linked_by(2);
    lock(&links[1][0]).broken = Some("the other side has hung up");
    let mut buffer = [0_u8; 4];
    let (dtype, from) = (u8::DTYPE, Some(Rank(1)));
    let incoming = Incoming { dtype, buffer: u8::target(&mut buffer), from, tag: Tag::from(0) };
    let error = posts[0].carry_out(Exchange::new(None, Some(incoming)), LONG).unwrap_err();
    assert!(matches!(error, Error::Unable { rank: 0, .. }), "{error}");
    assert!(error.to_string().contains("the other side has hung up"), "{error}");
    assert!(posts[1].lookout.has_ended());
}

/// So many messages are on their way from one rank to another at once.
const MOST: usize = 60;
/// So many bytes of each.
const ROOM: usize = 2000;
/// So many bytes are sent at once.
const PIECE: usize = 300;
const LONG: Duration = Duration::from_secs(60);
