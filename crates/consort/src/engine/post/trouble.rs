//! When a message does not come, or is not what was wanted.

use std::time::{Duration, Instant};

use consort_sys::dtype::Dtype;
use consort_sys::ring::{Envelope, RingError};

use super::Post;
use super::exchange::{Arrival, Departure, Exchange, contents};
use crate::error::Error;

/// How long to wait, and since when.
#[derive(Debug)]
pub(super) struct Patient {
    timeout: Duration,
    /// When it first had to sleep.
    began: Option<Instant>,
}

impl Patient {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, began: None }
    }

    pub(super) fn waited(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

/// Why a wait is in vain.
#[derive(Clone, Debug)]
pub(super) enum Stuck {
    /// The group has ended.
    Told { by: usize, reason: String },
    /// A rank's process has ended.
    Dead { rank: usize },
    /// All who could help have left the group.
    Left { ranks: Vec<usize> },
    /// It takes too long.
    Late,
}

impl Post {
    /// Whether to wait on.
    pub(super) fn check(
        &self,
        exchange: &Exchange<'_>,
        patient: &mut Patient,
    ) -> Result<(), Stuck> {
        let began = *patient.began.get_or_insert_with(Instant::now);
        if let Some((by, reason)) = self.lookout.halted_by() {
            return Err(Stuck::Told { by, reason });
        }
        for Awaited { ranks, held_up } in self.awaited(exchange) {
            if !held_up {
                self.check_ranks(ranks)?;
            }
        }
        if began.elapsed() >= patient.timeout { Err(Stuck::Late) } else { Ok(()) }
    }

    /// Whether to wait on for ranks of which all have to be alive and one has to be there.
    pub(super) fn check_ranks(&self, ranks: Vec<usize>) -> Result<(), Stuck> {
        let is_here = |rank: &usize| !self.bells[*rank].has_left();
        let here: Vec<usize> = ranks.iter().copied().filter(is_here).collect();
        if here.is_empty() {
            return Err(Stuck::Left { ranks });
        }
        match here.into_iter().find(|&rank| self.lookout.is_dead(rank)) {
            Some(rank) => Err(Stuck::Dead { rank }),
            None => Ok(()),
        }
    }

    /// Those of whom one may send what anybody may.
    pub(super) fn anybody(&self) -> Vec<usize> {
        match self.bells.len() {
            1 => vec![self.me],
            world => (0..world).filter(|&rank| rank != self.me).collect(),
        }
    }

    /// What the caller is told when there is no use in waiting. The group goes on if it can: if
    /// nobody has died and no message was cut off.
    pub(super) fn give_up(&self, exchange: &Exchange<'_>, waited: Duration, stuck: Stuck) -> Error {
        // Messages are not counted among the group's calls.
        let (group, call, number) = (self.name.clone(), exchange.to_string(), 0);
        match stuck {
            Stuck::Told { by, reason } => self.aborted(by, reason),
            Stuck::Left { ranks } => Error::Left { group, ranks: numbers(ranks), call },
            Stuck::Dead { rank } => {
                // It may have ended the group before it went.
                if let Some((by, reason)) = self.lookout.halted_by().filter(|it| it.0 != self.me) {
                    return self.aborted(by, reason);
                }
                self.halt(&format!("rank {rank} is gone; it waited in {call} for {waited:.1?}"));
                Error::PeerLost { group, rank: rank as u32, call, number, waited }
            }
            Stuck::Late => {
                if exchange.is_under_way() {
                    self.halt(&format!("in {call} it gave up in the middle, after {waited:.1?}"));
                }
                let missing =
                    self.awaited(exchange).flat_map(|awaited| numbers(awaited.ranks)).collect();
                Error::Late { group, missing, call, number, waited }
            }
        }
    }

    /// What the caller is told of a message that did not fit.
    pub(super) fn refusal(&self, arrival: &Arrival<'_>, sent: Envelope) -> Error {
        let message = &arrival.message;
        Error::MessageDiffers {
            group: self.name.clone(),
            from: arrival.source().expect("it came from somebody") as u32,
            tag: message.tag.get(),
            sent: match Dtype::from_code(sent.kind) {
                Some(dtype) => in_bytes(dtype, sent.bytes),
                None => format!("{} bytes of a type that is not known here", sent.bytes),
            },
            expected: in_bytes(message.dtype, message.buffer.len()),
        }
    }

    /// What the caller is told when a ring to or from a rank does not work.
    pub(super) fn ring_failed(&self, rank: usize, error: RingError) -> Error {
        match error {
            RingError::Memory(error) => Error::Memory(error),
            other => {
                let reason = format!("it cannot exchange messages with rank {rank}: {other}");
                self.halt(&reason);
                self.aborted(self.me, reason)
            }
        }
    }

    pub(super) fn aborted(&self, by: usize, reason: String) -> Error {
        Error::Aborted { group: self.name.clone(), by: by as u32, reason }
    }

    /// Ends the group.
    pub(super) fn halt(&self, reason: &str) {
        self.lookout.halt(reason);
        self.ring_all();
    }

    /// Who has to do something.
    fn awaited(&self, exchange: &Exchange<'_>) -> impl Iterator<Item = Awaited> {
        let departure = exchange.departure.as_ref().filter(|departure| !departure.done);
        let arrival = exchange.arrival.as_ref().filter(|arrival| !arrival.has_ended());
        let to = departure.map(|Departure { message, dispatch, .. }| Awaited {
            ranks: vec![message.to.index()],
            held_up: dispatch.is_held_up(),
        });
        let from = arrival.map(|arrival| Awaited {
            ranks: arrival.source().map_or_else(|| self.anybody(), |from| vec![from]),
            held_up: arrival.is_held_up(),
        });
        to.into_iter().chain(from)
    }
}

/// Ranks of whom all have to be alive, and at least one has to be there.
struct Awaited {
    ranks: Vec<usize>,
    /// Whether something of this rank's own is waited for first: what they did may yet be found.
    held_up: bool,
}

fn numbers(ranks: Vec<usize>) -> Vec<u32> {
    ranks.into_iter().map(|rank| rank as u32).collect()
}

fn in_bytes(dtype: Dtype, bytes: usize) -> String {
    format!("{} ({bytes} bytes)", contents(dtype, bytes))
}
