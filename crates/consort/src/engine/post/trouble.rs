//! When a message does not come, or is not what was wanted.

use std::time::{Duration, Instant};

use consort_sys::dtype::Dtype;
use consort_sys::ring::Envelope;

use super::ends::Broken;
use super::exchange::{Arrival, Departure, Exchange, contents};
use super::{Post, lock};
use crate::engine::lookout::{Stakes, Stuck};
use crate::engine::patient::Since;
use crate::engine::progress::LOOK_ROUND;
use crate::engine::verdict::{Cause, Waiting};
use crate::error::{Error, Result};
use crate::p2p::Outgoing;

/// How long to wait, and since when.
#[derive(Debug)]
pub(super) struct Patient {
    timeout: Duration,
    since: Since,
    /// When it was last looked round though something moved.
    looked: Option<Instant>,
}

impl Patient {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, since: Since::default(), looked: None }
    }

    pub(super) fn waited(&self) -> Duration {
        self.since.waited()
    }
}

impl Post {
    /// Looks round from time to time while a message keeps moving, so that who waits for it would not.
    pub(super) fn look_in_passing(
        &self,
        exchange: &Exchange<'_>,
        patient: &mut Patient,
    ) -> Result<()> {
        let looked = patient.looked.get_or_insert_with(Instant::now);
        if looked.elapsed() < LOOK_ROUND {
            return Ok(());
        }
        *looked = Instant::now();
        match self.check(exchange, patient) {
            Err(stuck @ (Stuck::Late | Stuck::Ended)) => {
                Err(self.give_up(exchange, patient.waited(), stuck))
            }
            // What one that is gone had sent before is seen by waiting for it.
            _ => Ok(()),
        }
    }

    /// Whether to wait on.
    pub(super) fn check(
        &self,
        exchange: &Exchange<'_>,
        patient: &mut Patient,
    ) -> std::result::Result<(), Stuck> {
        self.lookout.listen();
        for Awaited { ranks, held_up, comes } in self.awaited(exchange) {
            if !held_up {
                match self.lookout.judge(&ranks, || false) {
                    Err(Stuck::Left { ranks }) if comes && self.may_come(&ranks) => {}
                    Err(Stuck::Left { ranks }) if !comes && self.may_have_gone(&ranks) => {}
                    judged => judged?,
                }
            }
        }
        self.lookout.judge(&[], || patient.since.elapsed() >= patient.timeout)?;
        if patient.since.is_to_warn(self.lookout.warn_after()) {
            let waiting = waiting(exchange, patient.waited());
            self.lookout.warn(&waiting, &self.awaited_ranks(exchange));
        }
        Ok(())
    }

    /// Whether something may yet come of one of these ranks, who have left.
    pub(super) fn may_come(&self, ranks: &[usize]) -> bool {
        ranks.iter().any(|&rank| lock(&self.inboxes[rank]).may_go_on())
    }

    /// Whether one of these ranks, who have left, may have received what was sent to it.
    pub(super) fn may_have_gone(&self, ranks: &[usize]) -> bool {
        ranks.iter().any(|&rank| lock(&self.outboxes[rank]).may_be_done())
    }

    /// Those of whom one may send what anybody may.
    pub(super) fn anybody(&self) -> Vec<usize> {
        match self.lookout.world() {
            1 => vec![self.me],
            world => (0..world).filter(|&rank| rank != self.me).collect(),
        }
    }

    /// What the caller is told when there is no use in waiting. The group goes on if it can: if
    /// nobody has died and no message was cut off.
    pub(super) fn give_up(&self, exchange: &Exchange<'_>, waited: Duration, stuck: Stuck) -> Error {
        let waiting = waiting(exchange, waited);
        let missing = self.awaited_ranks(exchange).into_iter().collect();
        let is_cut_off = matches!(stuck, Stuck::Late) && exchange.is_under_way();
        let stakes = if is_cut_off { Stakes::Group } else { Stakes::Wait };
        self.lookout.give_up(stuck, waiting, missing, stakes)
    }

    /// What the caller is told of a message to a rank that has left: there would be room for it, but
    /// nobody to read it.
    #[cold]
    pub(super) fn has_left(&self, message: Outgoing<'_>) -> Error {
        let stuck = Stuck::Left { ranks: vec![message.to.index()] };
        self.give_up(&Exchange::new(Some(message), None), Duration::ZERO, stuck)
    }

    /// What the caller is told of a message that did not fit.
    pub(super) fn refusal(&self, arrival: &Arrival<'_>, sent: Envelope) -> Error {
        let message = &arrival.message;
        Error::MessageDiffers {
            group: self.lookout.group().to_owned(),
            from: arrival.source().expect("it came from somebody") as u32,
            tag: message.tag.get(),
            sent: match Dtype::from_code(sent.kind) {
                Some(dtype) => in_bytes(dtype, sent.bytes),
                None => format!("{} bytes of a type that is not known here", sent.bytes),
            },
            expected: in_bytes(message.dtype, message.buffer.len()),
        }
    }

    /// What the caller is told when messages to or from a rank cannot be moved.
    pub(super) fn broken(&self, rank: usize, error: Broken) -> Error {
        match error {
            Broken::Memory(error) => Error::Memory(error),
            Broken::Damaged(what) => {
                self.lookout.decide(Cause::Damaged { rank: rank as u32, what })
            }
            Broken::Unread(error) => {
                let what = format!("it could not fetch a message of rank {rank}");
                let call = format!("a message of rank {rank}");
                let waiting = Waiting { call, number: 0, waited: Duration::ZERO };
                self.lookout.lose(rank, error, waiting, &what)
            }
            Broken::Lost(why) => {
                let reason = format!("it cannot exchange messages with rank {rank}: {why}");
                self.lookout.decide(Cause::Unable { reason })
            }
        }
    }

    /// Those of whom some have to do something.
    pub(super) fn awaited_ranks(&self, exchange: &Exchange<'_>) -> Vec<usize> {
        self.awaited(exchange).flat_map(|awaited| awaited.ranks).collect()
    }

    /// Who has to do something.
    fn awaited(&self, exchange: &Exchange<'_>) -> impl Iterator<Item = Awaited> {
        let departure = exchange.departure.as_ref().filter(|departure| !departure.done);
        let arrival = exchange.arrival.as_ref().filter(|arrival| !arrival.has_ended());
        let to = departure.map(|Departure { message, dispatch, .. }| Awaited {
            ranks: vec![message.to.index()],
            held_up: dispatch.is_held_up(),
            comes: false,
        });
        let from = arrival.map(|arrival| Awaited {
            ranks: arrival.source().map_or_else(|| self.anybody(), |from| vec![from]),
            held_up: arrival.is_held_up(),
            comes: true,
        });
        to.into_iter().chain(from)
    }
}

/// Ranks of whom all have to be alive, and at least one has to be there.
struct Awaited {
    ranks: Vec<usize>,
    /// Whether something of this rank's own is waited for first: what they did may yet be found.
    held_up: bool,
    /// Whether it is for something of theirs.
    comes: bool,
}

/// Messages are not counted among the group's calls.
fn waiting(exchange: &Exchange<'_>, waited: Duration) -> Waiting {
    Waiting { call: exchange.to_string(), number: 0, waited }
}

fn in_bytes(dtype: Dtype, bytes: usize) -> String {
    format!("{} ({bytes} bytes)", contents(dtype, bytes))
}
