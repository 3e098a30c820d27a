//! How a point is timed; `bench/torch/timing.py` does the same.
//!
//! Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the earliest
//! start to the latest end over ranks, by the number of calls. Forms take turns block by block; what is told
//! is the median of each over its blocks.

use consort::{Group, ReduceOp};
use consort_train::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::forms::Form;

/// The time of a call in microseconds, for each of several that take turns.
pub(crate) fn medians<'f, 'a: 'f>(
    forms: impl Iterator<Item = &'f mut Form<'a>>,
    seconds: f64,
    group: &Group,
) -> Result<Vec<f64>> {
    let planned = forms.map(|form| Ok((plan(form, seconds, group)?, form, Vec::new())));
    let mut turns = planned.collect::<Result<Vec<_>>>()?;
    for turn in 0..MOST_BLOCKS {
        for ((calls, blocks), form, times) in &mut turns {
            if turn < *blocks {
                times.push(block(form, *calls, group)?);
            }
        }
    }
    Ok(turns.into_iter().map(|(_, _, times)| median(times)).collect())
}

/// How many calls make a block, and how many blocks there are; the same on all ranks. Warms up as well.
fn plan(form: &mut Form<'_>, seconds: f64, group: &Group) -> Result<(usize, usize)> {
    let mut calls = 1;
    let mut each = block(form, calls, group)?;
    while each * (calls as f64) < BLOCK / 2.0 && calls < MOST_CALLS {
        calls *= 4;
        each = block(form, calls, group)?;
    }
    let calls = ((BLOCK / each) as usize).clamp(1, MOST_CALLS);
    let blocks = (seconds * 1e6 / (each * calls as f64)) as usize;
    Ok((calls, blocks.clamp(LEAST_BLOCKS, MOST_BLOCKS)))
}

/// The time of one call, of so many, in microseconds.
fn block(form: &mut Form<'_>, calls: usize, group: &Group) -> Result<f64> {
    group.barrier()?;
    let start = now();
    for _ in 0..calls {
        form(false)?;
    }
    let mut span = [-start, now()];
    group.all_reduce(&mut span, ReduceOp::Max)?;
    Ok((span[0] + span[1]) / calls as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The clock that all processes of a machine share, in microseconds.
fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Microseconds.
const BLOCK: f64 = 2000.0;
const MOST_CALLS: usize = 20_000;
const LEAST_BLOCKS: usize = 7;
const MOST_BLOCKS: usize = 400;
