//! The last word of a rank to another.

use std::time::{Duration, Instant};

use super::{Mailbag, Traffic};
use crate::mpi::{Class, Communicator, Memory, Pending};

/// What is known of a rank's last word.
#[derive(Debug, Default)]
pub(super) enum Goodbye {
    #[default]
    Unsaid,
    /// MPI is receiving it.
    Coming(Pending),
    /// How many packets the rank has sent, and how many it has received.
    Said { sent: u64, taken: u64 },
    /// Its process has ended, or MPI has lost the word, which is known since then.
    Lost(Instant),
}

impl Mailbag {
    /// Tells all how much this rank has sent and received: those who have left [wait](super::parting) for it, too.
    pub(super) fn say_goodbye(&self) {
        let mut all = self.lock();
        for to in self.others() {
            if self.lookout.is_dead(to) {
                continue;
            }
            let it = &mut all[to];
            let words = [self.communicator.mark(), it.sent, it.taken];
            let mut memory = it.spare.pop().unwrap_or_default();
            memory.send.of(BYTES).copy_from_slice(bytemuck::bytes_of(&words));
            // Whoever cannot be told has its deadline.
            if let Ok(pending) = self.communicator.send(to, Class::Farewell, BYTES, memory, false) {
                it.add(pending, false);
            }
        }
    }

    /// Whether more may come of a rank that has left.
    pub(super) fn may_come(&self, from: usize) -> bool {
        self.ask(from, |it, sent, _| it.taken < sent)
    }

    /// Whether a rank that has left may have received all that was sent to it.
    pub(super) fn may_have_gone(&self, to: usize) -> bool {
        self.ask(to, |it, _, taken| taken >= it.sent)
    }

    /// What follows from how many packets a rank has sent and received, if it has said so. If not that may be so.
    fn ask(&self, rank: usize, is_so: impl Fn(&Traffic, u64, u64) -> bool) -> bool {
        let mut all = self.lock();
        let it = &mut all[rank];
        it.goodbye.look(&self.communicator, rank);
        match it.goodbye {
            Goodbye::Said { sent, taken } => is_so(it, sent, taken),
            Goodbye::Coming(_) => true,
            Goodbye::Unsaid if self.lookout.is_dead(rank) => {
                it.goodbye = Goodbye::Lost(Instant::now());
                true
            }
            Goodbye::Unsaid => true,
            Goodbye::Lost(since) => since.elapsed() < LAST_BREATH,
        }
    }
}

impl Goodbye {
    /// Looks whether it has been said.
    pub(super) fn look(&mut self, communicator: &Communicator, rank: usize) {
        loop {
            if let Self::Unsaid | Self::Lost(_) = self {
                let memory = &mut Memory::default();
                match communicator.receive(rank, Class::Farewell, BYTES, memory) {
                    Ok(Some(coming)) => *self = Self::Coming(coming),
                    // If MPI has failed, others find that out.
                    _ => return,
                }
            }
            let Self::Coming(coming) = self else { return };
            match coming.is_done() {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return *self = Self::Lost(Instant::now()),
            }
            let Self::Coming(come) = std::mem::take(self) else { return };
            let memory = come.into_memory();
            let words = memory.receive.bytes().first_chunk::<BYTES>();
            if let Some([mark, sent, taken]) =
                words.map(|it| bytemuck::must_cast::<_, [u64; 3]>(*it))
                && mark == communicator.mark()
            {
                *self = Self::Said { sent, taken };
            }
        }
    }
}

/// How long it is.
const BYTES: usize = 3 * size_of::<u64>();
/// How long the last words of a rank may take that does not say which they are.
const LAST_BREATH: Duration = Duration::from_secs(2);
