//! How to wait for another process.
//!
//! Waking a sleeper takes the system some ten microseconds, longer than most collectives. So a
//! wait begins awake. With a core for every rank it spins: the other one is at work, and its word
//! comes within a microsecond. With more ranks than cores the one waited for may need this very
//! core: then it is given away at once, again and again, as long as it comes back soon. If it
//! comes back late, somebody else computes here, and only sleeping keeps the tail short.
//!
//! Even with a core for every rank the system may have put two of them on one. That shows when the
//! core is given away: if it comes back at once, nobody else wanted it, and spinning is right; if
//! not, spinning only kept the other one from its work. The README beside this file has the states and
//! the scenarios.

use std::time::{Duration, Instant};

/// How long to wait in which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often to look before the core is given away, for now.
    spins: u32,
    /// How often at most, and how often when somebody else wants the core.
    most: u32,
    least: u32,
    yielding: Duration,
}

impl Patience {
    /// For so many ranks on a host that share so many cores.
    pub fn for_ranks(ranks: usize, cores: usize) -> Self {
        if ranks <= cores {
            let yielding = Duration::from_micros(50);
            Self { spins: SPINS, most: SPINS, least: FEW, yielding }
        } else {
            Self { spins: FEW, most: FEW, least: FEW, yielding: LONG }
        }
    }

    /// The same for looks that ask the system: each takes as long as several others, and with a core
    /// that somebody else wants the first is one too many.
    #[must_use]
    pub fn asking(self) -> Self {
        let fewer = |spins| spins / ASKING;
        Self { spins: fewer(self.spins), most: fewer(self.most), least: 0, ..self }
    }

    /// The same for looks by which the work itself gets on: whoever sleeps keeps everyone waiting, also with a core
    /// for every rank.
    #[must_use]
    pub fn working(self) -> Self {
        Self { yielding: LONG, ..self.asking() }
    }

    /// Looks until `look` finds what it looks for. `doze` sleeps once, at most for the time given;
    /// `check` is asked before each sleep whether to go on.
    ///
    /// # Errors
    /// What `check` says.
    #[inline]
    pub fn wait<E>(
        &mut self,
        mut look: impl FnMut() -> bool,
        doze: impl FnMut(Duration),
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        for _ in 0..self.spins {
            if look() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.wait_longer(look, doze, check)
    }

    #[cold]
    fn wait_longer<E>(
        &mut self,
        mut look: impl FnMut() -> bool,
        mut doze: impl FnMut(Duration),
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let start = Instant::now();
        let mut last = start;
        loop {
            std::thread::yield_now();
            let now = Instant::now();
            self.spins = if now - last < AT_ONCE { self.most } else { self.least };
            if look() {
                return Ok(());
            }
            if now - last > LATE || now - start > self.yielding {
                break;
            }
            last = now;
        }
        loop {
            check()?;
            if look() {
                return Ok(());
            }
            doze(SLICE);
        }
    }
}

/// About a tenth of a millisecond.
const SPINS: u32 = 2_000;
const FEW: u32 = 2;
/// How many looks at memory take as long as one that asks the system.
const ASKING: u32 = 8;
/// How long a core is given away again and again by one whose sleep would cost the others more.
const LONG: Duration = Duration::from_millis(10);
/// A core that comes back sooner than this was wanted by nobody else.
const AT_ONCE: Duration = Duration::from_micros(1);
/// A core that comes back later than this was used by somebody who does not wait for us.
const LATE: Duration = Duration::from_millis(1);
/// No sleep is longer, so that `check` is asked often enough to notice a dead peer.
const SLICE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_without_sleeping() {
        let mut patience = Patience::for_ranks(2, 2);
        let found = patience.wait(|| true, |_| panic!("slept"), || Err("asked"));
        assert_eq!(found, Ok(()));
    }

    #[test]
    fn what_does_not_come_is_waited_for_until_told_to_stop() {
        for ranks in [1, 8] {
            let mut asked = 0;
            let mut slept = 0;
            let check = || {
                asked += 1;
                if asked > 3 { Err("enough") } else { Ok(()) }
            };
            let doze = |limit| {
                assert_eq!(limit, SLICE);
                slept += 1;
            };
            assert_eq!(Patience::for_ranks(ranks, 2).wait(|| false, doze, check), Err("enough"));
            assert_eq!((asked, slept), (4, 3));
        }
    }

    #[test]
    fn what_comes_during_a_sleep_is_found() {
        let came = std::cell::Cell::new(false);
        let doze = |_| came.set(true);
        let found = Patience::for_ranks(8, 2).wait(|| came.get(), doze, || Ok::<_, ()>(()));
        assert_eq!(found, Ok(()));
    }
}
