//! The ends of a way for messages between this rank and another, over the wire.

use std::time::Duration;

use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::{Source, Target};

use super::route::Route;
use crate::engine::post::{Broken, Inflow, Outflow};
use crate::engine::sleep::Sleep;
use crate::exec::Moved;
use crate::wire::{Letter, Switch, Trouble};

/// The way to another rank.
#[derive(Debug)]
pub(super) struct WireOutflow {
    route: Route,
    to: u32,
    /// How many messages have begun.
    number: u64,
    letter: Letter,
    done: usize,
}

impl WireOutflow {
    pub(super) fn new(route: &Route, to: usize) -> Self {
        let (route, to) = (route.clone(), route.in_world(to));
        let letter = Letter { bytes: 0, tag: 0, kind: 0 };
        Self { route, to, number: 0, letter, done: 0 }
    }
}

impl Outflow for WireOutflow {
    fn begin(&mut self, envelope: Envelope) -> Result<bool, Broken> {
        if !self.route.wire().has_room(self.to, self.route.group()) {
            return Ok(false);
        }
        let Envelope { bytes, tag, kind } = envelope;
        self.letter = Letter { bytes: bytes as u64, tag, kind };
        self.number += 1;
        self.done = 0;
        Ok(true)
    }

    fn go_on(&mut self, data: Source<'_>) -> Result<Progress, Broken> {
        let Self { route, to, number, letter, done } = self;
        let call = (route.group(), *number);
        progress(route.wire().send_letter(*to, call, *letter, data, done))
    }
}

/// The way from another rank.
#[derive(Debug)]
pub(super) struct WireInflow {
    route: Route,
    from: u32,
    /// How much of the message at the front was taken.
    taken: usize,
}

impl WireInflow {
    pub(super) fn new(route: &Route, from: usize) -> Self {
        Self { route: route.clone(), from: route.in_world(from), taken: 0 }
    }

    fn go_on(&mut self, target: Option<Target<'_>>) -> Result<Progress, Broken> {
        let Self { route, from, taken } = self;
        let moved = route.wire().take_letter(route.group(), *from, target, taken);
        if let Ok(Moved::Whole) = moved {
            self.taken = 0;
        }
        progress(moved)
    }
}

impl Inflow for WireInflow {
    fn front(&mut self) -> Result<Option<Envelope>, Broken> {
        let front = self.route.wire().front_letter(self.route.group(), self.from);
        let Letter { bytes, tag, kind } = match front.map_err(broken)? {
            Some(letter) => letter,
            None => return Ok(None),
        };
        let bytes = usize::try_from(bytes).map_err(|_| nonsense(bytes))?;
        if bytes > isize::MAX as usize {
            return Err(nonsense(bytes as u64));
        }
        Ok(Some(Envelope { bytes, tag, kind }))
    }

    fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken> {
        self.go_on(Some(target))
    }

    fn skip(&mut self) -> Result<Progress, Broken> {
        self.go_on(None)
    }
}

impl Sleep for Switch {
    fn doze(&self, look: &mut dyn FnMut() -> bool, limit: Duration) {
        Switch::doze(self, look, limit);
    }

    fn ring(&self) {
        Switch::ring(self);
    }
}

fn progress(moved: Result<Moved, Trouble>) -> Result<Progress, Broken> {
    match moved.map_err(broken)? {
        Moved::Nothing => Ok(Progress::Stuck),
        Moved::Some => Ok(Progress::Moved),
        Moved::Whole => Ok(Progress::Done),
    }
}

fn broken(trouble: Trouble) -> Broken {
    Broken::Damaged(match trouble {
        Trouble::Damaged { what, .. } => what,
        Trouble::Differs { header, .. } | Trouble::Length { header, .. } => {
            format!("a message with the header of {header:?}")
        }
    })
}

fn nonsense(bytes: u64) -> Broken {
    Broken::Damaged(format!("a message of {bytes} bytes"))
}
