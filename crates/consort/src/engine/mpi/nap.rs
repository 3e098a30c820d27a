//! Where threads wait for MPI.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::sleep::Sleep;

/// A place to sleep from which one gets up again and again to look: MPI rings for nobody, and gets nothing done by
/// itself. The longer the sleep has lasted, the longer a nap is.
#[derive(Debug, Default)]
pub(super) struct Nap {
    /// How often somebody has rung.
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Sleep for Nap {
    fn doze(&self, look: &mut dyn FnMut() -> bool, limit: Duration) {
        let rings = *self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        loop {
            if look() {
                return;
            }
            let slept = began.elapsed();
            if slept >= limit {
                return;
            }
            let nap = (slept / PART).clamp(SHORTEST, LONGEST).min(limit - slept);
            let guard = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
            if *guard != rings {
                return;
            }
            let woken = self.rung.wait_timeout(guard, nap);
            if *woken.unwrap_or_else(PoisonError::into_inner).0 != rings {
                return;
            }
        }
    }

    fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }
}

/// A nap is this part of the sleep so far.
const PART: u32 = 4;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn one_who_naps_looks_again_and_again() {
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            looks == 5
        };
        Nap::default().doze(&mut look, Duration::from_secs(60));
        assert_eq!(looks, 5);
    }

    #[test]
    fn no_nap_is_longer_than_the_limit() {
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            false
        };
        Nap::default().doze(&mut look, Duration::ZERO);
        assert_eq!(looks, 1);
    }

    #[test]
    fn a_ring_ends_the_sleep() {
        let nap = Arc::new(Nap::default());
        let (other, mut rung) = (nap.clone(), false);
        let mut look = || {
            if !std::mem::replace(&mut rung, true) {
                let other = other.clone();
                thread::spawn(move || other.ring());
            }
            false
        };
        nap.doze(&mut look, Duration::from_secs(600));
    }
}
