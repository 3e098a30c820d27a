//! What a rank sleeps on until somebody has done something for it.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::block::Block;
use crate::alert::Sleepers;
use crate::word::Word;

/// A rank's bell. It is rung by whoever has written to a ring for that rank or read from one of its
/// rings, and by its own threads for each other.
#[derive(Clone, Debug)]
pub struct Bell {
    pub(super) block: Block,
}

impl Bell {
    pub(super) fn new(block: &Block) -> Self {
        Self { block: block.clone() }
    }

    /// Wakes those who sleep, if somebody does, so that they look at what was done before.
    #[inline]
    pub fn ring(&self) {
        ring(self.block.bell(), self.block.sleepers());
    }

    /// Sleeps until the bell is rung, or the limit passes, or for no reason; but not if `look`
    /// finds what is waited for.
    pub fn doze(&self, look: impl FnOnce() -> bool, limit: Duration) {
        doze(self.block.bell(), self.block.sleepers(), look, limit);
    }

    /// Says that this bell's rank sends and receives no more. What it has sent can be received.
    pub fn leave(&self) {
        self.block.left().write(1);
    }

    /// Whether its rank has said so. What it has sent was sent before.
    pub fn has_left(&self) -> bool {
        self.block.left().read() != 0
    }
}

/// For those who sleep on other things too, and look at what is in the rings between reading the
/// word and sleeping.
impl Sleepers for Bell {
    fn word(&self) -> &AtomicU32 {
        self.block.bell()
    }

    fn sleepers(&self) -> &AtomicU32 {
        self.block.sleepers()
    }

    fn is_there(&self, _value: u32) -> bool {
        false
    }
}

/// The ringer's side. Nothing is written and no system call is made if nobody sleeps.
#[inline]
pub(super) fn ring<W: Word>(bell: &W, sleepers: &W) {
    // Either the sleeper's count is seen here, or it sees what was done before when it looks.
    W::fence();
    if sleepers.read() != 0 {
        bell.add(1);
        bell.wake();
    }
}

/// The sleeper's side.
pub(super) fn doze<W: Word>(bell: &W, sleepers: &W, look: impl FnOnce() -> bool, limit: Duration) {
    sleepers.add(1);
    W::fence();
    // Read before looking: what is done after the look changes it.
    let seen = bell.read();
    if !look() {
        bell.sleep(seen, limit);
    }
    sleepers.add(1_u32.wrapping_neg());
}
