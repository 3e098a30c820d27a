//! Links within one process, for tests: with little room, and as slow as they like.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use consort_sys::view::{Source, Target};

use super::{Label, Links, Moved};
use crate::error::{Error, Result};

/// How much room there is on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Room {
    /// One message from one rank to another. What stands in the way can be put away.
    OneOfAll,
    /// One message from one rank to another on each track. Nothing can be put away.
    OneOfTrack,
}

/// All ways between all ranks.
#[derive(Debug)]
pub(in crate::exec) struct Network {
    room: Room,
    ways: HashMap<(usize, usize), Vec<Flying>>,
    used: HashSet<(usize, usize, Label)>,
    dice: Dice,
    pub(in crate::exec) longest: usize,
    /// The most messages from one rank to another that were put away at once.
    pub(in crate::exec) most_away: usize,
}

/// A message under way.
#[derive(Debug)]
struct Flying {
    label: Label,
    len: usize,
    bytes: Vec<u8>,
    is_away: bool,
}

/// One rank's end of all its ways.
#[derive(Debug)]
pub(in crate::exec) struct Mem {
    me: usize,
    network: Rc<RefCell<Network>>,
}

impl Network {
    pub(in crate::exec) fn new(room: Room, seed: u64) -> Rc<RefCell<Self>> {
        let (ways, used, dice) = (HashMap::new(), HashSet::new(), Dice(seed | 1));
        Rc::new(RefCell::new(Self { room, ways, used, dice, longest: 0, most_away: 0 }))
    }

    /// Whether nothing is left that nobody has taken.
    pub(in crate::exec) fn is_empty(&self) -> bool {
        self.ways.values().all(Vec::is_empty)
    }

    fn has_room(&self, way: (usize, usize), label: Label) -> bool {
        let mut flying = self.ways.get(&way).into_iter().flatten();
        match self.room {
            Room::OneOfAll => flying.all(|it| it.is_away),
            Room::OneOfTrack => flying.all(|it| it.label.track != label.track),
        }
    }
}

impl Mem {
    pub(in crate::exec) fn new(me: usize, network: &Rc<RefCell<Network>>) -> Self {
        Self { me, network: Rc::clone(network) }
    }
}

impl Links for Mem {
    fn send(
        &mut self,
        to: usize,
        label: Label,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let network = &mut *self.network.borrow_mut();
        assert_ne!(to, self.me, "nobody sends to itself");
        let way = (self.me, to);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let is_new = !network.used.contains(&(self.me, to, label));
        if network.dice.roll(8) == 0 || is_new && !network.has_room(way, label) {
            return Ok(Moved::Nothing);
        }
        network.longest = network.longest.max(len);
        let flying = network.ways.entry(way).or_default();
        if is_new {
            assert_eq!(*done, 0, "a message begins at its beginning");
            network.used.insert((self.me, to, label));
            flying.push(Flying { label, len, bytes: Vec::new(), is_away: false });
        }
        let message = flying.iter_mut().find(|it| it.label == label);
        let message = message.expect("a label is used for one message, which is under way");
        assert_eq!((message.bytes.len(), message.len), (*done, len));
        let more = network.dice.some_of(len - *done);
        get(parts, *done, more, &mut message.bytes);
        *done += more;
        Ok(if *done == len { Moved::Whole } else { Moved::Some })
    }

    fn receive(
        &mut self,
        from: usize,
        label: Label,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let network = &mut *self.network.borrow_mut();
        let flying = network.ways.entry((from, self.me)).or_default();
        let Some(at) = flying.iter().position(|it| it.label == label) else {
            return Ok(Moved::Nothing);
        };
        let message = &flying[at];
        let expected: usize = parts.iter().map(|part| part.len()).sum();
        if expected != message.len {
            return Err(self.differs_by(from, expected as u64, message.len as u64));
        }
        let there = message.bytes.len() - *done;
        if network.dice.roll(8) == 0 || there == 0 && *done < expected {
            return Ok(Moved::Nothing);
        }
        let more = network.dice.some_of(there);
        put(parts, *done, &message.bytes[*done..*done + more]);
        *done += more;
        if *done < expected {
            return Ok(Moved::Some);
        }
        flying.remove(at);
        Ok(Moved::Whole)
    }

    fn make_way(&mut self) -> Result<bool> {
        let network = &mut *self.network.borrow_mut();
        if network.room == Room::OneOfTrack {
            return Ok(false);
        }
        let mut has_moved = false;
        for ((_, to), flying) in &mut network.ways {
            if *to != self.me {
                continue;
            }
            for message in flying.iter_mut().filter(|it| !it.is_away) {
                message.is_away = true;
                has_moved = true;
            }
            network.most_away = network.most_away.max(flying.len());
        }
        Ok(has_moved)
    }

    fn differs(&self, from: usize, expected: u64, sent: u64) -> Error {
        self.differs_by(from, expected, sent)
    }
}

impl Mem {
    fn differs_by(&self, from: usize, expected: u64, sent: u64) -> Error {
        let me = self.me;
        Error::Argument(format!("rank {from} sent {sent} bytes, rank {me} expected {expected}"))
    }
}

fn get(parts: &[Source<'_>], mut start: usize, mut len: usize, bytes: &mut Vec<u8>) {
    for part in parts {
        let here = part.len().saturating_sub(start).min(len);
        if here > 0 {
            bytes.extend(part.slice(start..start + here).to_vec());
        }
        len -= here;
        start = start.saturating_sub(part.len());
    }
}

fn put(parts: &[Target<'_>], mut start: usize, mut bytes: &[u8]) {
    for part in parts {
        let here = part.len().saturating_sub(start).min(bytes.len());
        if here > 0 {
            part.slice(start..start + here).copy_from(Source::from(&bytes[..here]));
        }
        bytes = &bytes[here..];
        start = start.saturating_sub(part.len());
    }
}

/// Numbers that look like chance, the same for the same seed.
#[derive(Debug)]
pub(in crate::exec) struct Dice(pub(in crate::exec) u64);

impl Dice {
    pub(in crate::exec) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    /// All of so many, or one, or a few, but some if there are any.
    fn some_of(&mut self, all: usize) -> usize {
        match self.roll(4) {
            _ if all <= 1 => all,
            0 => 1,
            1 => 1 + self.roll(all),
            _ => all,
        }
    }
}
