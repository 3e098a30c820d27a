//! Where threads sleep while they wait for other ranks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_sys::ring::Bell;

/// Where the threads of a rank sleep until something was done for it. Clones are the same place.
#[derive(Clone, Debug)]
pub(crate) enum Rest {
    /// On its bell, which the ranks of its host ring.
    Bell(Bell),
    /// Somewhere else.
    Other(Arc<dyn Sleep>),
    /// What the ranks of this host do is noticed on the bell, what others do in the place. One cannot
    /// sleep on both.
    Both { bell: Bell, place: Arc<dyn Sleep>, is_here: Arc<[bool]> },
}

/// A place to sleep, where what other ranks do is noticed.
///
/// No wake-up is lost: a sleeper counts as one before it looks for the last time. So whoever does
/// something for it and rings then either finds it counted, and wakes it, or did it before that look.
pub(crate) trait Sleep: Send + Sync + fmt::Debug {
    /// Sleeps until it is rung, or something comes from another rank, or the limit passes, or for no
    /// reason; but not if `look` finds what is waited for.
    fn doze(&self, look: &mut dyn FnMut() -> bool, limit: Duration);

    /// Wakes those who sleep here, if somebody does, so that they look at what was done before.
    fn ring(&self);
}

impl Rest {
    /// As [`Sleep::doze`].
    pub(super) fn doze(&self, mut look: impl FnMut() -> bool, limit: Duration) {
        match self {
            Self::Bell(bell) => bell.doze(look, limit),
            Self::Other(place) => place.doze(&mut look, limit),
            Self::Both { place, .. } => place.doze(&mut look, limit.min(NAP)),
        }
    }

    /// As [`Sleep::doze`], for somebody who waits for these ranks only.
    pub(super) fn doze_for(
        &self,
        ranks: &[usize],
        mut look: impl FnMut() -> bool,
        limit: Duration,
    ) {
        match self {
            Self::Both { bell, place, is_here } => {
                if ranks.iter().all(|&rank| is_here[rank]) {
                    bell.doze(look, limit);
                    // What others say is heard meanwhile.
                    place.doze(&mut || false, Duration::ZERO);
                } else if ranks.iter().any(|&rank| is_here[rank]) {
                    place.doze(&mut look, limit.min(NAP));
                } else {
                    place.doze(&mut look, limit);
                }
            }
            _ => self.doze(look, limit),
        }
    }

    /// As [`Sleep::ring`].
    #[inline]
    pub(super) fn ring(&self) {
        match self {
            Self::Bell(bell) => bell.ring(),
            Self::Other(place) => place.ring(),
            Self::Both { bell, place, .. } => {
                bell.ring();
                place.ring();
            }
        }
    }
}

impl From<Arc<dyn Sleep>> for Rest {
    fn from(place: Arc<dyn Sleep>) -> Self {
        Self::Other(place)
    }
}

/// How long to sleep when not everything that is waited for can end the sleep.
pub(super) const NAP: Duration = Duration::from_millis(1);
