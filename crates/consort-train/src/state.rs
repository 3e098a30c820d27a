//! What a reducer remembers from pass to pass.

use std::sync::Arc;

use crate::assign::assign;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::ledger::Ledger;
use crate::options::Settings;
use crate::parameter::Parameter;
use crate::pass::Mode;

/// What changes from pass to pass.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) layout: Arc<Layout>,
    /// How many passes have begun.
    pub(crate) pass: u64,
    pub(crate) phase: Phase,
    /// How often each gradient comes, if that is known.
    pub(crate) times: Vec<u32>,
    /// Whether the first pass has yet to show how often gradients come.
    pub(crate) is_counting: bool,
    /// In which order gradients came in the first pass that was reduced.
    pub(crate) observed: Option<Vec<usize>>,
    pub(crate) is_rebuilt: bool,
    pub(crate) failed: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Idle,
    Running {
        ledger: Ledger,
        mode: Mode,
    },
    /// Somebody has the averages.
    Held,
}

impl State {
    /// Before the next pass, which nothing is known of, after so many.
    pub(crate) fn new(parameters: &[Parameter], settings: &Settings, pass: u64) -> Self {
        let Settings { caps, is_static, reduce_as, .. } = settings;
        // Gradients mostly come from the last parameter to the first.
        let buckets = assign(parameters, (0..parameters.len()).rev(), caps);
        Self {
            layout: Arc::new(Layout::new(parameters, buckets, *reduce_as)),
            pass,
            phase: Phase::Idle,
            times: vec![if *is_static { u32::MAX } else { 1 }; parameters.len()],
            is_counting: *is_static,
            observed: None,
            is_rebuilt: false,
            failed: None,
        }
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        match &self.failed {
            Some(first) => Err(Error::Failed { first: first.clone() }),
            None => Ok(()),
        }
    }

    /// The pass of this number, if it is the one that runs.
    pub(crate) fn running(&mut self, pass: u64, what: &'static str) -> Result<(&mut Ledger, Mode)> {
        let now = self.pass;
        match &mut self.phase {
            Phase::Running { ledger, mode } if now == pass => Ok((ledger, *mode)),
            _ => Err(Error::Over { what, pass, now }),
        }
    }

    /// Remembers how often gradients came in the first pass.
    pub(crate) fn count(&mut self, missing: &[(usize, u32)]) {
        for &(index, came) in missing {
            self.times[index] = came;
        }
        self.is_counting = false;
    }
}
