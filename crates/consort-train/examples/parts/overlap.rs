//! How much of the communication of a model in layers was hidden behind its computation.
//!
//! The flight recorder knows when a call was queued, began and ended. That something computed at the same time
//! is not to be had from calls: whoever waits for one, and computes then, queues the next one as late as
//! somebody who computes meanwhile. So layers note it themselves. Forward, it is their own time. Backward, an
//! operation between two layers notes when the gradient comes by: candle has queued the call of the later
//! layer by then, and not the one of the earlier layer, whose gradient it computes from now on.
//!
//! ```text
//! goes on     ├─ reduce_scatter 2 ─────────┤
//!             queued 2   mark ── layer 1 ── queued 1
//!                        └──── hidden ─────┘
//!
//! waits       ├─ reduce_scatter 2 ─┤
//!             queued 2               mark ── layer 1 ── queued 1: nothing is hidden
//! ```
//!
//! The time of a call includes waiting for other ranks, for who comes early is in it until all have come.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};
use consort::trace::CallTrace;

/// When the layers of a model have computed, but for the last one of each step, forward and backward: by the
/// clock of the host, as in the flight recorder.
#[derive(Default)]
pub(crate) struct Overlap {
    forward: Vec<Range<u64>>,
    backward: Arc<Mutex<Vec<u64>>>,
}

impl Overlap {
    /// What a layer computes, with notes of when it does so.
    pub(crate) fn computing(&mut self, layer: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let began = now();
        let y = layer()?;
        self.forward.push(began..now());
        y.apply_op1(Mark(self.backward.clone()))
    }

    /// How long layers were gathered but for the first of each step, which has nothing to hide behind, and how
    /// long of that while the layer before computed.
    pub(crate) fn of_gathers(&self, calls: &[CallTrace], layers: usize) -> Hidden {
        let gathers = named(calls, "all_gather");
        let hiding = gathers.chunks_exact(layers).flat_map(|step| &step[1..]);
        hiding.zip(&self.forward).map(|(call, computing)| hidden(call, computing)).sum()
    }

    /// How long gradients were added up but for the last of each step, which has nothing to hide behind, and how
    /// long of that while the layer before computed its own: from the next mark until that was queued.
    pub(crate) fn of_scatters(&self, calls: &[CallTrace], layers: usize) -> Hidden {
        let marks = self.backward.lock().unwrap_or_else(PoisonError::into_inner);
        let scatters = named(calls, "reduce_scatter");
        let pairs = scatters.chunks_exact(layers).flat_map(|step| step.windows(2));
        let each = pairs.map(|pair| {
            let [queued, next] = [pair[0], pair[1]].map(|call| call.queued.unwrap_or(call.began));
            let mark = marks[marks.partition_point(|&mark| mark < queued)..].first();
            hidden(pair[0], &(mark.copied().unwrap_or(next)..next))
        });
        each.sum()
    }
}

/// The operation that changes nothing, and notes when its gradient comes by.
struct Mark(Arc<Mutex<Vec<u64>>>);

impl CustomOp1 for Mark {
    fn name(&self) -> &'static str {
        "mark"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        if !layout.is_contiguous() || layout.start_offset() != 0 {
            bail!("a layer gives a view of something larger");
        }
        Ok((storage.clone(), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(now());
        Ok(Some(gradient.clone()))
    }
}

fn named<'a>(calls: &'a [CallTrace], name: &str) -> Vec<&'a CallTrace> {
    calls.iter().filter(|call| call.to_string().starts_with(name)).collect()
}

/// The time of a call, and how much of it was in a time of computation.
fn hidden(call: &CallTrace, computing: &Range<u64>) -> Hidden {
    let ended = call.ended.unwrap_or(call.began);
    let both = ended.min(computing.end).saturating_sub(call.began.max(computing.start));
    Hidden { all: ended - call.began, hidden: both }
}

/// Nanoseconds of communication, and how many of them were hidden behind computation.
#[derive(Default)]
pub(crate) struct Hidden {
    all: u64,
    hidden: u64,
}

impl std::iter::Sum for Hidden {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        let add = |a: Self, b: Self| Self { all: a.all + b.all, hidden: a.hidden + b.hidden };
        each.fold(Self::default(), add)
    }
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [all, hidden] = [self.all, self.hidden].map(|nanoseconds| nanoseconds as f64 / 1e6);
        write!(f, "{hidden:.1} of {all:.1} ms")
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("it is later than that").as_nanos() as u64
}
