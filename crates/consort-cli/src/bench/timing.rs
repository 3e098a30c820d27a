//! How a point is timed; the peers in `bench/peers` do exactly the same.
//!
//! Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the
//! earliest start to the latest end over ranks, by the number of calls. p50 and min are over blocks.
//! p99 is over single calls on all ranks: those of the blocks themselves where reading the clock
//! costs nothing beside a call, calls after each block where it does.

use rustix::time::{ClockId, clock_gettime};

use super::samples::{Samples, tally};

/// What timing needs of the rank it runs on. All ranks do the same, so every method is called on
/// all of them.
pub(crate) trait Company {
    /// Why a call failed.
    type Error;

    /// Makes the call that is timed, so many times.
    fn run(&mut self, calls: u64) -> Result<(), Self::Error>;

    /// Waits for all ranks.
    fn barrier(&mut self) -> Result<(), Self::Error>;

    /// The largest of all ranks' numbers.
    fn largest(&mut self, mine: u64) -> Result<u64, Self::Error>;

    /// The clock that all ranks share, in nanoseconds.
    fn now(&self) -> u64;
}

/// Warms up and measures for about so many seconds.
///
/// # Errors
/// Those of the calls.
pub(crate) fn take<C: Company>(company: &mut C, seconds: f64) -> Result<Samples, C::Error> {
    let call = estimate(company)?;
    let calls = ((BLOCK / call) as u64).clamp(1, MOST_CALLS);
    let blocks = (seconds * 1e9 / (call * calls as f64)) as usize;
    let blocks = blocks.clamp(LEAST_BLOCKS, MOST_BLOCKS);
    let mut samples = Samples { calls, ..Samples::default() };
    // Nothing is allocated or sorted while a call is timed.
    let mut singles = Vec::with_capacity(blocks * calls.min(MOST_SINGLES) as usize);
    for _ in 0..blocks {
        company.barrier()?;
        let start = company.now();
        if call >= SLOW {
            time_singles(company, calls, &mut singles)?;
        } else {
            company.run(calls)?;
        }
        samples.blocks.push((start, company.now()));
        if call < SLOW {
            company.barrier()?;
            time_singles(company, calls.min(MOST_SINGLES), &mut singles)?;
        }
    }
    samples.singles = tally(&singles);
    Ok(samples)
}

/// The clock that all processes of a machine share, in nanoseconds.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The time of one call on the slowest rank, the same number on all ranks. Warms up as well.
fn estimate<C: Company>(company: &mut C) -> Result<f64, C::Error> {
    let mut calls = 1;
    loop {
        company.barrier()?;
        let start = company.now();
        company.run(calls)?;
        let took = company.now() - start;
        let slowest = company.largest(took)? as f64;
        // The very first call may have had things to set up.
        let enough = (slowest > BLOCK / 2.0 && calls > 1) || slowest > 100.0 * BLOCK;
        if enough || calls * 4 > MOST_CALLS {
            return Ok(slowest.max(1.0) / calls as f64);
        }
        calls *= 4;
    }
}

fn time_singles<C: Company>(
    company: &mut C,
    calls: u64,
    singles: &mut Vec<u64>,
) -> Result<(), C::Error> {
    let mut before = company.now();
    for _ in 0..calls {
        company.run(1)?;
        let after = company.now();
        singles.push(after - before);
        before = after;
    }
    Ok(())
}

/// Nanoseconds: about half a turn of the scheduler, so that on a busy machine some blocks run
/// undisturbed.
const BLOCK: f64 = 2e6;

/// Nanoseconds: a call beside which reading the clock costs nothing.
const SLOW: f64 = 20e3;

const LEAST_BLOCKS: usize = 5;
const MOST_BLOCKS: usize = 2000;
const MOST_CALLS: u64 = 1_000_000;
const MOST_SINGLES: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank whose calls take a certain time by its own clock; the first one takes longer.
    struct Fake {
        clock: u64,
        call: u64,
        first: u64,
        others_slower: u64,
        blocks: Vec<u64>,
    }

    impl Fake {
        fn new(call: u64) -> Self {
            Self { clock: 0, call, first: 0, others_slower: 1, blocks: Vec::new() }
        }
    }

    impl Company for Fake {
        type Error = String;

        fn run(&mut self, calls: u64) -> Result<(), String> {
            self.clock += calls * self.call + std::mem::take(&mut self.first);
            self.blocks.push(calls);
            Ok(())
        }

        fn barrier(&mut self) -> Result<(), String> {
            self.clock += 1_000;
            Ok(())
        }

        fn largest(&mut self, mine: u64) -> Result<u64, String> {
            Ok(mine * self.others_slower)
        }

        fn now(&self) -> u64 {
            self.clock
        }
    }

    #[test]
    fn quick_calls_are_timed_in_blocks_of_two_milliseconds() {
        let mut rank = Fake { first: 5_000_000, ..Fake::new(100) };
        let samples = take(&mut rank, 0.1).unwrap();
        assert_eq!((samples.calls, samples.blocks.len()), (20_000, 50));
        assert!(samples.blocks.iter().all(|(start, end)| end - start == 2_000_000));
        assert_eq!(samples.singles, [(100, 50 * 500)]);
    }

    #[test]
    fn slow_calls_are_timed_singly_within_their_blocks() {
        let samples = take(&mut Fake::new(500_000), 0.1).unwrap();
        assert_eq!((samples.calls, samples.blocks.len()), (4, 50));
        let &[(time, count)] = &samples.singles[..] else { panic!("{samples:?}") };
        assert!(time.abs_diff(500_000) < 500 && count == 200, "{time} {count}");
    }

    #[test]
    fn very_slow_calls_are_timed_a_few_times_all_the_same() {
        let mut rank = Fake::new(300_000_000);
        let samples = take(&mut rank, 0.1).unwrap();
        assert_eq!((samples.calls, samples.blocks.len()), (1, 5));
        assert_eq!(rank.blocks.len(), 6, "a long call warms up once");
    }

    #[test]
    fn the_slowest_rank_decides_for_all() {
        let mut quick = Fake { others_slower: 10, ..Fake::new(100) };
        let mut slow = Fake::new(1_000);
        let calls = |rank: &mut Fake| take(rank, 0.1).map(|it| (it.calls, it.blocks.len()));
        assert_eq!(calls(&mut quick), calls(&mut slow));
    }
}
