//! A clock that costs little to look at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::origin::PerProcess;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticks {
    /// Steps of the processor's own counter, which are the same on all processors.
    Counter,
    /// Nanoseconds of the monotonic clock.
    Clock,
}

impl Ticks {
    /// The cheapest that runs evenly on this machine.
    pub(super) fn best() -> Self {
        let is_even = *IS_EVEN.here();
        if is_even { Self::Counter } else { Self::Clock }
    }

    #[inline]
    pub(super) fn now(self) -> u64 {
        match self {
            Self::Counter => counter::read(),
            Self::Clock => monotonic(),
        }
    }

    /// How many nanoseconds one of them takes, as far as this process knows.
    pub(super) fn nanoseconds(self) -> f64 {
        match self {
            Self::Counter => *RATE.here(),
            Self::Clock => 1.0,
        }
    }

    /// How many of them there are in so long a time.
    pub(super) fn in_time(self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.nanoseconds()) as u64
    }
}

/// The same moment on all clocks, in nanoseconds but for the ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) ticks: u64,
    pub(super) monotonic: u64,
    /// Since 1970.
    pub(super) wall: u64,
}

impl Moment {
    /// Looks a few times, and takes the quickest look: who is interrupted between two clocks sees
    /// different moments.
    pub(super) fn now(ticks: Ticks) -> Self {
        let mut best = Self::look(ticks);
        for _ in 1..LOOKS {
            best = std::cmp::min_by_key(best, Self::look(ticks), |(took, _)| *took);
        }
        best.1
    }

    /// The moment, and how many ticks the look took.
    fn look(ticks: Ticks) -> (u64, Self) {
        let before = ticks.now();
        let monotonic = monotonic();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = ticks.now().saturating_sub(before);
        let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        (took, Self { ticks: before + took / 2, monotonic, wall })
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Good to one in ten thousand, which is enough until there are moments that lie further apart.
fn measure() -> f64 {
    let first = Moment::now(Ticks::Counter);
    let mut last = first;
    while last.monotonic - first.monotonic < MEASURED {
        last = Moment::now(Ticks::Counter);
    }
    rate(first, last).unwrap_or(1.0)
}

/// How many nanoseconds a tick took between two moments, if they can tell.
pub(super) fn rate(first: Moment, last: Moment) -> Option<f64> {
    let ticks = last.ticks.checked_sub(first.ticks).filter(|&ticks| ticks > 0)?;
    let time = last.monotonic.checked_sub(first.monotonic)?;
    Some(time as f64 / ticks as f64)
}

/// Measuring takes long enough for a thread to be at it while another forks.
static RATE: PerProcess<f64> = PerProcess::new(measure);
/// Asking takes long in a virtual machine.
static IS_EVEN: PerProcess<bool> = PerProcess::new(counter::is_even);
const MEASURED: u64 = 1_000_000;
const LOOKS: usize = 5;

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether it keeps its pace whatever the processor does.
    pub(super) fn is_even() -> bool {
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every processor of this kind has the instruction, and it touches no memory.
        unsafe { _rdtsc() }
    }

    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    pub(super) fn is_even() -> bool {
        true
    }

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: the register can be read by everybody, and that touches no memory.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    pub(super) fn is_even() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        super::monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_take_as_long_as_they_say() {
        let ticks = Ticks::best();
        let nanoseconds = ticks.nanoseconds();
        let first = Moment::now(ticks);
        std::thread::sleep(Duration::from_millis(20));
        let last = Moment::now(ticks);
        let found = rate(first, last).unwrap();
        assert!((found / nanoseconds - 1.0).abs() < 0.05, "{found} {nanoseconds}");
        let passed = ticks.in_time(Duration::from_nanos(last.monotonic - first.monotonic));
        let counted = last.ticks - first.ticks;
        assert!((passed as f64 / counted as f64 - 1.0).abs() < 0.05, "{passed} {counted}");
    }

    #[test]
    fn moments_that_do_not_lie_one_after_the_other_tell_nothing() {
        let moment = |ticks, monotonic| Moment { ticks, monotonic, wall: 0 };
        assert_eq!(rate(moment(5, 0), moment(5, 10)), None);
        assert_eq!(rate(moment(6, 0), moment(5, 10)), None);
        assert_eq!(rate(moment(1, 10), moment(5, 9)), None);
        assert_eq!(rate(moment(1, 10), moment(5, 18)), Some(2.0));
    }
}
