//! What ranks give each other in calls whose parts may differ in size.
//!
//! Of other calls the ranks know each other's sizes when they [agree](super::agreement) that they make the same one. Of
//! these a rank knows only what it gives and what it expects itself, and NCCL would wait for ever for the rest of a
//! part that is too short.

use std::time::Duration;

use super::{Inner, Wait};
use crate::call::Call;
use crate::engine::Cause;
use crate::error::{Error, Result};

impl Inner {
    /// Waits until all ranks know that each gives each what it expects.
    ///
    /// # Errors
    /// When one does not, on all of them; otherwise as [`agree`](Self::agree).
    pub(super) fn agree_on_parts(&self, call: &Call<'_>, wait: &Wait<'_>) -> Result<()> {
        let Some((gives, takes)) = parts(call, self.me, self.world) else { return Ok(()) };
        let left = wait.until.own.remaining().unwrap_or(Duration::MAX);
        let control = self.control.within(left);
        let (mut comes, mut found) = (vec![0; self.world], vec![0; FINDING * self.world]);
        let told = control.all_to_all(&gives, &mut comes).and_then(|()| {
            let odd = (0..self.world).find(|&rank| comes[rank] != takes[rank]);
            let mine = odd.map_or([0; FINDING], |from| [from as u64 + 1, comes[from], takes[from]]);
            control.all_gather(&mine, &mut found)
        });
        told.map_err(|error| self.lose(wait.waiting(), &error))?;
        match found.chunks_exact(FINDING).position(|finding| finding[0] > 0) {
            None => Ok(()),
            Some(to) => Err(self.differ_in_part(wait, to, &found[to * FINDING..][..FINDING])),
        }
    }

    /// Ends the group because of what a rank has found. It says so itself, and the others hear it.
    #[cold]
    fn differ_in_part(&self, wait: &Wait<'_>, to: usize, finding: &[u64]) -> Error {
        let (from, given, expected) = (finding[0] - 1, finding[1], finding[2]);
        let call = wait.call;
        let mine = format!("{call}, with {expected} bytes from rank {from} to rank {to}");
        let theirs = format!("{call}, with {given}");
        if to != self.me {
            return self.give_up(format!("rank {to} made {mine}, but rank {from} made {theirs}"));
        }
        self.decide(Cause::Differs { number: wait.number, mine, rank: from as u32, theirs })
    }
}

/// How many bytes this rank gives each, and expects of each, if these may be any.
fn parts(call: &Call<'_>, me: usize, world: usize) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut gives, mut takes) = (vec![0; world], vec![0; world]);
    match *call {
        Call::AllToAll { uneven: true, inputs, outputs, .. } => {
            for rank in 0..world {
                gives[rank] = inputs.part(rank, world).len() as u64;
                takes[rank] = outputs.part(rank, world).len() as u64;
            }
        }
        Call::Gather { uneven: true, root, input, outputs, .. } => {
            gives[root.index()] = input.len() as u64;
            for rank in (0..world).filter(|_| root.index() == me) {
                takes[rank] = outputs.map_or(0, |it| it.part(rank, world).len() as u64);
            }
        }
        Call::Scatter { uneven: true, root, inputs, output, .. } => {
            takes[root.index()] = output.len() as u64;
            for rank in (0..world).filter(|_| root.index() == me) {
                gives[rank] = inputs.map_or(0, |it| it.part(rank, world).len() as u64);
            }
        }
        _ => return None,
    }
    Some((gives, takes))
}

/// Of whom a rank gets something else than it expects, from 1; how much, and how much it expects.
const FINDING: usize = 3;
