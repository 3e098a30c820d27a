//! How a point is timed, as everywhere in consort.
//!
//! Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the earliest start to the
//! latest end over ranks, by the number of calls. Forms take turns block by block; what is told is the median of each
//! over its blocks.

use consort::{Group, ReduceOp, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::point::Buffers;

/// Makes so many calls.
pub(crate) type Form<'a> = Box<dyn FnMut(&mut Buffers, usize) -> Result<()> + 'a>;

/// Calls that are done when they return.
pub(crate) fn each<'a>(call: impl Fn(&mut Buffers) -> Result<()> + 'a) -> Form<'a> {
    together(call, || Ok(()))
}

/// Calls that are waited for together.
pub(crate) fn together<'a>(
    call: impl Fn(&mut Buffers) -> Result<()> + 'a,
    wait: impl Fn() -> Result<()> + 'a,
) -> Form<'a> {
    Box::new(move |on, calls| {
        for _ in 0..calls {
            call(on)?;
        }
        wait()
    })
}

/// The time of a call in microseconds, for each of several forms.
pub(crate) fn medians(
    forms: &mut [Form<'_>],
    on: &mut Buffers,
    seconds: f64,
    group: &Group,
) -> Result<Vec<f64>> {
    let mut plans = Vec::new();
    for form in &mut *forms {
        plans.push(plan(form, on, seconds, group)?);
    }
    let mut times = vec![Vec::new(); forms.len()];
    for turn in 0..MOST_BLOCKS {
        for ((form, (calls, blocks)), times) in forms.iter_mut().zip(&plans).zip(&mut times) {
            if turn < *blocks {
                times.push(block(form, on, *calls, group)?);
            }
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// How many calls make a block, and how many blocks there are; the same on all ranks. Warms up as well.
fn plan(
    form: &mut Form<'_>,
    on: &mut Buffers,
    seconds: f64,
    group: &Group,
) -> Result<(usize, usize)> {
    let mut calls = 1;
    let mut each = block(form, on, calls, group)?;
    while each * (calls as f64) < BLOCK / 2.0 && calls < MOST_CALLS {
        calls *= 4;
        each = block(form, on, calls, group)?;
    }
    let calls = ((BLOCK / each) as usize).clamp(1, MOST_CALLS);
    let blocks = (seconds * 1e6 / (each * calls as f64)) as usize;
    Ok((calls, blocks.clamp(LEAST_BLOCKS, MOST_BLOCKS)))
}

/// The time of one call, of so many, in microseconds: the same on all ranks.
fn block(form: &mut Form<'_>, on: &mut Buffers, calls: usize, group: &Group) -> Result<f64> {
    group.barrier()?;
    let start = now();
    form(on, calls)?;
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
