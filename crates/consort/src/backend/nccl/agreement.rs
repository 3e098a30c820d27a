//! What ranks agree on before anything is given to the device.

use std::time::Duration;

use super::{Inner, OnDevices, Wait};
use crate::call::Description;
use crate::engine::{Cause, Waiting};
use crate::error::{Error, Result};

impl Inner {
    /// Waits until all ranks are about to make the same call. Says whether one of them has its parts in a list: ranks
    /// need not agree on that, but have to give NCCL the same.
    ///
    /// # Errors
    /// When one of them is not, does not come in time, or cannot come any more. The group ends then.
    pub(super) fn agree(
        &self,
        call: &Description,
        is_listed: bool,
        wait: &Wait<'_>,
    ) -> Result<bool> {
        let left = wait.until.own.remaining().unwrap_or(Duration::MAX);
        let mine = words(call, wait.number, is_listed);
        let mut all = vec![0_u64; WORDS * self.world];
        if let Err(error) = self.control.within(left).all_gather(&mine, &mut all) {
            return Err(self.lose(wait.waiting(), &error));
        }
        let is_other = |theirs: &[u64]| theirs[..SAME] != mine[..SAME];
        match all.chunks_exact(WORDS).position(is_other) {
            None => Ok(all.chunks_exact(WORDS).any(|theirs| theirs[SAME] != 0)),
            Some(rank) => Err(self.differ(wait, rank, &all[rank * WORDS..][..WORDS])),
        }
    }

    /// Ends the group because of what keeps its ranks from speaking to each other on the host, unless it has ended
    /// for that already. They have the same numbers there.
    #[cold]
    pub(super) fn lose(&self, waiting: Waiting, error: &Error) -> Error {
        self.lookout.listen();
        let look_round = || self.lookout.look_round(|| waiting.clone());
        if let Some(known) = self.lookout.error().or_else(look_round) {
            self.end();
            return known;
        }
        let in_order = |ranks: &[u32]| ranks.iter().map(|&rank| rank as usize).collect();
        self.decide(match error {
            Error::Late { missing, .. } => Cause::Late { missing: in_order(missing), waiting },
            Error::Left { ranks, .. } => Cause::Left { ranks: in_order(ranks), waiting },
            Error::PeerLost { rank, .. } => Cause::Dead { rank: *rank, waiting },
            other => Cause::Aborted { reason: other.to_string() },
        })
    }

    /// Ends the group because a rank is about to make another call.
    #[cold]
    fn differ(&self, wait: &Wait<'_>, rank: usize, theirs: &[u64]) -> Error {
        let (told, number) = (Description::unpack([theirs[0], theirs[1]]), theirs[3]);
        let theirs = told.map_or_else(
            || "a call of another version".to_owned(),
            |it| OnDevices(&it).to_string(),
        );
        let mine = wait.call.to_string();
        let theirs = match (mine == theirs, number) {
            (true, number) if number != wait.number => format!("{theirs} as its call {number}"),
            (true, _) => theirs + " with another factor",
            (false, _) => theirs,
        };
        self.decide(Cause::Differs { number: wait.number, mine, rank: rank as u32, theirs })
    }
}

/// What has to be the same on all ranks: the call in two words, a digest of all that it is, and which it is. Behind
/// that, whether this rank has its parts in a list.
fn words(call: &Description, number: u64, is_listed: bool) -> [u64; WORDS] {
    let [call_word, extent] = call.pack();
    [call_word, extent, call.digest(number), number, u64::from(is_listed)]
}

const WORDS: usize = SAME + 1;
/// How many of them have to be the same.
const SAME: usize = 4;
