//! A call's messages, as the wire carries them.

use consort_sys::view::{Source, Target};

use super::history::History;
use super::route::Route;
use crate::call::Description;
use crate::engine::lookout::Lookout;
use crate::engine::verdict::Cause;
use crate::error::{Error, Result};
use crate::exec::{Label, Links, Moved};
use crate::wire::{Header, Kind, Trouble, Wanted};

/// Ways to all ranks for the messages of one call.
#[derive(Debug)]
pub(super) struct CallLinks<'a> {
    route: &'a Route,
    lookout: &'a Lookout,
    history: &'a History,
    call: Description,
    /// What was asked for since something moved last, by rank in the world.
    asked: Vec<(u32, Label)>,
}

impl<'a> CallLinks<'a> {
    pub(super) fn new(
        route: &'a Route,
        lookout: &'a Lookout,
        history: &'a History,
        call: Description,
    ) -> Self {
        Self { route, lookout, history, call, asked: Vec::new() }
    }

    /// Ends the group because of what came.
    #[cold]
    fn complain(&self, trouble: Trouble) -> Error {
        let cause = match trouble {
            Trouble::Differs { from, header } => self.differs_from(from, &header),
            Trouble::Length { from, header, expected } => {
                let from = self.route.in_group(from);
                return self.differs(from, expected as u64, u64::from(header.bytes));
            }
            Trouble::Damaged { from, what } => {
                Cause::Damaged { rank: self.route.in_group(from) as u32, what }
            }
        };
        self.lookout.decide(cause)
    }

    fn differs_from(&self, from: u32, header: &Header) -> Cause {
        let (number, rank) = (header.number, self.route.in_group(from) as u32);
        let theirs = in_words(header.call);
        match self.history.find(number) {
            Some((_, digest)) if digest == header.digest => Cause::Damaged {
                rank,
                what: format!("it sent more of call {number}, {theirs}, than belongs to it"),
            },
            Some((call, _)) => {
                let mine = in_words(call);
                let same = mine == theirs;
                let theirs = if same { theirs + ", after other calls" } else { theirs };
                Cause::Differs { number, mine, rank, theirs }
            }
            None => {
                let mine = "something else, too long ago to tell".to_owned();
                Cause::Differs { number, mine, rank, theirs }
            }
        }
    }
}

impl Links for CallLinks<'_> {
    fn send(
        &mut self,
        to: usize,
        label: Label,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let header = Header {
            kind: Kind::Part,
            label,
            bytes: bytes as u32,
            sum: None,
            group: self.route.group(),
            epoch: self.route.wire().epoch(),
            number: self.history.number(),
            digest: self.history.digest(),
            call: self.call.pack(),
        };
        let to = self.route.in_world(to);
        let moved = self.route.wire().send(to, &header, parts, done);
        let moved = moved.map_err(|trouble| self.complain(trouble))?;
        if moved == Moved::Nothing {
            self.asked.push((to, NOTHING));
        }
        Ok(moved)
    }

    fn receive(
        &mut self,
        from: usize,
        label: Label,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let from = self.route.in_world(from);
        let wanted = Wanted {
            group: self.route.group(),
            number: self.history.number(),
            digest: self.history.digest(),
            label,
        };
        let moved = self.route.wire().receive(from, &wanted, parts, done);
        let moved = moved.map_err(|trouble| self.complain(trouble))?;
        if moved != Moved::Whole {
            self.asked.push((from, label));
        }
        Ok(moved)
    }

    fn make_way(&mut self) -> Result<bool> {
        let Self { route, history, asked, .. } = self;
        let moved = route.wire().make_way(route.group(), history.number(), asked);
        asked.clear();
        moved.map_err(|trouble| self.complain(trouble))
    }

    fn differs(&self, from: usize, expected: u64, sent: u64) -> Error {
        let (call, to) = (&self.call, self.route.me());
        self.lookout.decide(Cause::Differs {
            number: self.history.number(),
            mine: format!("{call}, with {expected} bytes from rank {from} to rank {to}"),
            rank: from as u32,
            theirs: format!("{call}, with {sent}"),
        })
    }
}

fn in_words(call: [u64; 2]) -> String {
    match Description::unpack(call) {
        Some(description) => description.to_string(),
        None => "a call of another version".to_owned(),
    }
}

/// No frame has it: what is waited for from that rank is room.
const NOTHING: Label = Label { track: u16::MAX, position: u32::MAX };
