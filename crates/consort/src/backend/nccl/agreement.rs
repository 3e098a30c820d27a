//! What ranks agree on before anything is given to the device.

use std::time::Duration;

use super::{Inner, Wait};
use crate::call::Description;
use crate::engine::Cause;
use crate::error::Result;

impl Inner {
    /// Waits until all ranks are about to make the same call.
    ///
    /// # Errors
    /// When one of them is not, does not come in time, or cannot come any more. The group ends then.
    pub(super) fn agree(&self, wait: &Wait<'_>) -> Result<()> {
        let left = wait.until.remaining().unwrap_or(Duration::MAX);
        let mine = words(wait.call, wait.number);
        let mut all = vec![0_u64; WORDS * self.world];
        if let Err(error) = self.control.within(left).all_gather(&mine, &mut all) {
            // What keeps ranks from agreeing is what keeps the group from going on: it may know it already.
            self.lookout.listen();
            let known = self.lookout.error().or_else(|| self.lookout.look_round());
            if let Some(known) = known {
                self.end();
                return Err(known);
            }
            return Err(self.decide(Cause::Aborted { reason: error.to_string() }));
        }
        match all.chunks_exact(WORDS).position(|theirs| *theirs != mine) {
            None => Ok(()),
            Some(rank) => Err(self.differ(wait, rank, &all[rank * WORDS..][..WORDS])),
        }
    }

    /// Ends the group because a rank is about to make another call.
    #[cold]
    fn differ(&self, wait: &Wait<'_>, rank: usize, theirs: &[u64]) -> crate::Error {
        let told = Description::unpack([theirs[0], theirs[1]]);
        let theirs =
            told.map_or_else(|| "a call of another version".to_owned(), |it| it.to_string());
        let mine = wait.call.to_string();
        let theirs = if mine == theirs { theirs + " with another factor" } else { theirs };
        self.decide(Cause::Differs { number: wait.number, mine, rank: rank as u32, theirs })
    }
}

/// What has to be the same on all ranks: the call in two words, and a digest of all that it is.
fn words(call: &Description, number: u64) -> [u64; WORDS] {
    let [call_word, extent] = call.pack();
    [call_word, extent, call.digest(number)]
}

const WORDS: usize = 3;
