//! When a message does not come, or is not what was wanted.

use std::time::{Duration, Instant};

use consort_sys::dtype::Dtype;
use consort_sys::ring::{Envelope, RingError};

use super::Post;
use super::exchange::{Arrival, Exchange, contents};
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
}

/// Why a wait is in vain.
#[derive(Debug)]
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
        for ranks in self.awaited(exchange) {
            let here: Vec<usize> =
                ranks.iter().copied().filter(|&rank| !self.bells[rank].has_left()).collect();
            if here.is_empty() {
                return Err(Stuck::Left { ranks });
            }
            if let Some(rank) = here.into_iter().find(|&rank| self.lookout.is_dead(rank)) {
                return Err(Stuck::Dead { rank });
            }
        }
        if began.elapsed() >= patient.timeout { Err(Stuck::Late) } else { Ok(()) }
    }

    /// What the caller is told when there is no use in waiting. The group goes on if it can: if
    /// nobody has died and no message was cut off.
    pub(super) fn give_up(
        &self,
        exchange: &Exchange<'_>,
        patient: &Patient,
        stuck: Stuck,
    ) -> Error {
        let waited = patient.began.map_or(Duration::ZERO, |began| began.elapsed());
        // Messages are not counted among the group's calls.
        let (group, call, number) = (self.name.clone(), exchange.to_string(), 0);
        match stuck {
            Stuck::Told { by, reason } => self.aborted(by, reason),
            Stuck::Left { ranks } => Error::Left { group, ranks: numbers(ranks), call },
            Stuck::Dead { rank } => {
                self.halt(&format!("rank {rank} is gone; it waited in {call} for {waited:.1?}"));
                Error::PeerLost { group, rank: rank as u32, call, number, waited }
            }
            Stuck::Late => {
                if exchange.is_under_way() {
                    self.halt(&format!("in {call} it gave up in the middle, after {waited:.1?}"));
                }
                let missing = numbers(self.awaited(exchange).concat());
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

    fn halt(&self, reason: &str) {
        self.lookout.halt(reason);
        self.ring_all();
    }

    /// The ranks who have to do something. Of each list, all have to be alive, and at least one has
    /// to be there.
    fn awaited(&self, exchange: &Exchange<'_>) -> Vec<Vec<usize>> {
        let departure = exchange.departure.as_ref().filter(|departure| !departure.done);
        let arrival = exchange.arrival.as_ref().filter(|arrival| !arrival.has_ended());
        let to = departure.map(|departure| vec![departure.message.to.index()]);
        let from = arrival.map(|arrival| match arrival.source() {
            Some(from) => vec![from],
            None if self.bells.len() == 1 => vec![self.me],
            None => (0..self.bells.len()).filter(|&rank| rank != self.me).collect(),
        });
        to.into_iter().chain(from).collect()
    }
}

fn numbers(ranks: Vec<usize>) -> Vec<u32> {
    ranks.into_iter().map(|rank| rank as u32).collect()
}

fn in_bytes(dtype: Dtype, bytes: usize) -> String {
    format!("{} ({bytes} bytes)", contents(dtype, bytes))
}
