//! How far apart two cores are.
//!
//! What one core writes, another sees after tens to hundreds of nanoseconds, depending on what lies
//! between them. Every small collective is a handful of such hops. On a virtual machine the cores
//! move: the figure can change fourfold within seconds, so whoever compares times measures it too.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::topo::Topology;

/// How long a cache line takes from the first allowed core to the second, one way: the median of
/// some blocks, a few milliseconds of work for both.
///
/// `None` where there is only one core, or where others kept the two from running together.
pub fn cache_line_latency() -> Option<Duration> {
    let cores: Vec<u32> = Topology::here().allowed.iter().take(2).collect();
    let &[near, far] = &cores[..] else { return None };
    let [there, back] = [Line::default(), Line::default()];
    let until = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            stay_on(far);
            (1..=ROUNDS).try_for_each(|round| {
                there.wait_for(round, until)?;
                back.0.store(round, Ordering::Release);
                Some(())
            })
        });
        let call = scope.spawn(|| {
            stay_on(near);
            time_blocks(&there, &back, until)
        });
        let (blocks, all) = (call.join().ok()??, echo.join().ok()?);
        all.map(|()| median(blocks) / 2)
    })
}

/// A word with a cache line, and the line that is fetched with it, to itself.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn wait_for(&self, round: u64, until: Instant) -> Option<()> {
        for spins in 1_u64.. {
            // Pairs with the other side's release; nothing but the number itself is handed over.
            if self.0.load(Ordering::Acquire) == round {
                return Some(());
            }
            spin_loop();
            if spins.is_multiple_of(LOOK_AT_CLOCK) && Instant::now() > until {
                return None;
            }
        }
        None
    }
}

fn time_blocks(there: &Line, back: &Line, until: Instant) -> Option<Vec<Duration>> {
    let mut round = 0;
    let mut block = || {
        let start = Instant::now();
        for _ in 0..ROUNDS / BLOCKS {
            round += 1;
            there.0.store(round, Ordering::Release);
            back.wait_for(round, until)?;
        }
        Some(start.elapsed() / (ROUNDS / BLOCKS) as u32)
    };
    (0..BLOCKS).map(|_| block()).collect()
}

/// Where that is forbidden the thread runs where it is put.
fn stay_on(core: u32) {
    let mut only = CpuSet::new();
    only.set(core as usize);
    let _ = sched_setaffinity(None, &only);
}

fn median(mut blocks: Vec<Duration>) -> Duration {
    blocks.sort_unstable();
    blocks[blocks.len() / 2]
}

const ROUNDS: u64 = 10_000;
const BLOCKS: u64 = 20;

/// Two threads that have to take turns with others may need this long for very little.
const PATIENCE: Duration = Duration::from_millis(200);

const LOOK_AT_CLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_takes_less_time_than_a_system_call_to_wake_somebody() {
        let cores = Topology::here().allowed.len();
        let hop = (0..20).find_map(|_| cache_line_latency());
        if cores < 2 {
            assert_eq!(hop, None);
        } else if let Some(hop) = hop {
            assert!(hop > Duration::ZERO && hop < Duration::from_micros(50), "{hop:?}");
        }
    }

    #[test]
    fn whoever_is_not_answered_gives_up() {
        let silent = Line::default();
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(silent.wait_for(1, soon), None);
        assert!(time_blocks(&Line::default(), &silent, soon).is_none());
    }
}
