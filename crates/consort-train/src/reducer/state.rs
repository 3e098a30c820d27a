//! What a reducer remembers from pass to pass.

use std::sync::Arc;
use std::time::Instant;

use consort::{ErrorKind, Group};

use super::ledger::Ledger;
use crate::assign::{Caps, assign};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::options::{Settings, try_out};
use crate::parameter::Parameter;
use crate::pass::Mode;
use crate::stats::Tally;
use crate::times::Record;
use crate::tune::Advice;

/// What changes from pass to pass.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) layout: Arc<Layout>,
    /// How often buckets were made.
    pub(crate) generation: u64,
    /// The sizes of buckets.
    pub(crate) caps: Caps,
    /// What measuring has found.
    pub(crate) advice: Option<Advice>,
    /// How many passes have begun.
    pub(crate) pass: u64,
    pub(crate) phase: Phase,
    /// How often each gradient comes, if that is known.
    pub(crate) comes: Vec<u32>,
    /// Whether the first pass has yet to show how often gradients come.
    pub(crate) is_counting: bool,
    /// In which order gradients came in the last pass that was averaged, if buckets may be made anew.
    pub(crate) observed: Option<Vec<usize>>,
    /// Whether buckets were made anew in the order in which gradients come.
    pub(crate) is_rebuilt: bool,
    /// How many passes were averaged with this group.
    pub(crate) averaged: u64,
    /// When the last forward pass began.
    pub(crate) forward: Option<Instant>,
    pub(crate) tally: Tally,
    pub(crate) failed: Option<Failure>,
}

/// The first thing that has failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) kind: ErrorKind,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        Self { text: error.to_string(), kind: error.kind() }
    }
}

#[derive(Debug)]
pub(crate) enum Phase {
    Idle,
    Running(Box<Running>),
    /// Somebody has the averages.
    Held,
}

/// A pass that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) ledger: Ledger,
    pub(crate) mode: Mode,
    pub(crate) record: Record,
}

impl State {
    /// Before the next pass, which nothing is known of, after so many, with buckets that are made for the
    /// so-manieth time. Every rank of the group has to call it.
    ///
    /// # Errors
    /// When gradients cannot be kept and averaged on devices as is wanted; why the group has ended, if it has.
    pub(crate) fn new(
        parameters: &[Parameter],
        settings: &Settings,
        group: &Group,
        (pass, generation): (u64, u64),
    ) -> Result<Self> {
        let Settings { caps, is_static, rules, .. } = settings;
        if let Some(device) = &rules.device {
            try_out(group, device, parameters)?;
        }
        // Gradients mostly come from the last parameter to the first.
        let order = (0..parameters.len()).rev();
        let buckets = assign(parameters, order, caps, |parameter| rules.is_alone(parameter));
        Ok(Self {
            layout: Arc::new(Layout::new(parameters, buckets, rules, (group, generation))?),
            generation,
            caps: caps.clone(),
            advice: None,
            pass,
            phase: Phase::Idle,
            comes: vec![if *is_static { u32::MAX } else { 1 }; parameters.len()],
            is_counting: *is_static,
            observed: None,
            is_rebuilt: false,
            averaged: 0,
            forward: None,
            tally: Tally::default(),
            failed: None,
        })
    }

    /// Forgets all but how many passes there were, to go on with another group. Every rank of it has to call it.
    ///
    /// # Errors
    /// As [`new`](Self::new). If gradients are on a device, there are no buckets then, and this has failed.
    pub(crate) fn begin_anew(
        &mut self,
        parameters: &[Parameter],
        settings: &Settings,
        group: &Group,
    ) -> Result<()> {
        let is_on_device = settings.rules.device.is_some();
        if is_on_device {
            // A device has no room for gradients twice.
            self.layout.clear();
            self.layout.release();
        }
        let next = (self.pass, self.generation + 1);
        let new = Self::new(parameters, settings, group, next);
        if let Err(error) = &new
            && is_on_device
        {
            self.failed.get_or_insert_with(|| Failure::of(error));
        }
        *self = new?;
        Ok(())
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        match &self.failed {
            Some(Failure { text, kind }) => Err(Error::Failed { first: text.clone(), kind: *kind }),
            None => Ok(()),
        }
    }

    /// Whether a pass can begin.
    ///
    /// # Errors
    /// When something has failed, or there is another.
    pub(crate) fn check_idle(&self) -> Result<()> {
        self.check_alive()?;
        match &self.phase {
            Phase::Idle => Ok(()),
            Phase::Running(_) | Phase::Held => Err(Error::Pending { pass: self.pass }),
        }
    }

    /// The pass of this number, if it is the one that runs.
    pub(crate) fn running(&mut self, pass: u64, what: &'static str) -> Result<&mut Running> {
        let now = self.pass;
        match &mut self.phase {
            Phase::Running(running) if now == pass => Ok(running),
            _ => Err(Error::Over { what, pass, now }),
        }
    }

    /// Remembers how often gradients came in the first pass.
    pub(crate) fn count(&mut self, missing: &[(usize, u32)]) {
        for &(index, came) in missing {
            self.comes[index] = came;
        }
        self.is_counting = false;
    }
}
