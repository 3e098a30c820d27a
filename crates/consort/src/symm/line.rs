//! Standing in line for a window.

use consort_sys::window::{Damaged, Plain, Windows};

use super::Symmetric;
use super::wait::Wait;
use crate::engine::{Stakes, Stuck};
use crate::error::{Error, Result};

/// A thread that waits for a window.
pub(super) struct InLine<'a> {
    rank: usize,
    windows: &'a Windows,
    wait: Wait<'a>,
    /// Those whom it has waited for last.
    holders: Vec<usize>,
}

/// Why there is no use in that.
pub(super) enum Hopeless {
    /// The thread waits for itself.
    Own,
    Stuck(Stuck),
}

impl<'a> InLine<'a> {
    #[inline]
    pub(super) fn new<T: Plain>(memory: &'a Symmetric<T>, rank: usize) -> Result<Self> {
        let (windows, wait) = (memory.memory.windows(), Wait::new(&memory.group)?);
        Ok(Self { rank, windows, wait, holders: Vec::new() })
    }

    pub(super) fn look_round(
        &mut self,
        holders: Result<&[usize], Damaged>,
    ) -> Result<(), Hopeless> {
        let damaged = |what: Damaged| Stuck::Damaged { rank: self.rank, what: what.to_string() };
        let holders = holders.map_err(damaged).map_err(Hopeless::Stuck)?;
        if self.windows.is_held_here(self.rank) {
            return Err(Hopeless::Own);
        }
        self.holders = holders.to_vec();
        self.wait.look_round(holders).map_err(Hopeless::Stuck)
    }
}

impl<T: Plain> Symmetric<T> {
    /// The error for a wait for a window that was in vain.
    pub(super) fn was_held(
        &self,
        InLine { rank, wait, holders, .. }: &InLine<'_>,
        stuck: Hopeless,
    ) -> Error {
        let call = self.describe(&format!("a wait for the window of rank {rank}"));
        match stuck {
            Hopeless::Own => Error::Argument(format!(
                "group {}: {call} is for what this thread has already: drop the guard that it has \
                 first",
                self.group.name()
            )),
            Hopeless::Stuck(Stuck::Late) => Error::Held {
                group: self.group.name().to_owned(),
                call: call.into(),
                holders: holders.iter().map(|&rank| rank as u32).collect(),
                waited: wait.waited(),
            },
            Hopeless::Stuck(stuck) => {
                wait.give_up(stuck, call, holders.iter().copied(), Stakes::Wait)
            }
        }
    }
}
