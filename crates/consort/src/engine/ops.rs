//! The operations as turns, and which of them carries out a call.
//!
//! | turns | what a rank publishes | what it does with the others' |
//! |---|---|---|
//! | [`Spread`] | the same data for all, chunk by chunk | copies it: broadcast, all_gather, gather |
//! | [`Deal`] | a part for each rank, chunk by chunk | copies its own: scatter, all_to_all |
//! | [`DealReduce`] | a part for each rank | combines its own: reduce_scatter |
//! | [`OneShot`] | all its data | combines all of it: all_reduce and reduce, small |
//! | [`TwoShot`] | all its data; then its slice of the result | combines its slice; then copies the others': all_reduce and reduce, large |
//! | [`Meet`] | nothing | nothing: barrier |
//! | [`Window`] | where its operand is | works on it there: operands in symmetric memory |
//! | [`Tables`] | the sizes that it knows | learns the largest: before all with uneven parts |

mod deal;
mod reduce;
mod spread;
mod tables;
mod window;

use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use self::deal::{Deal, DealReduce};
use self::reduce::{OneShot, TwoShot};
use self::spread::{Meet, Spread, Takes};
use self::tables::Tables;
use self::window::Window;
pub(super) use self::window::operand;
use super::ground::Ground;
use super::lane::{Lane, Patient};
use crate::call::{Call, Inputs, Outputs};
use crate::error::{Error, Result};

/// Carries out a call that was checked and counted.
#[inline]
pub(super) fn run(
    lane: &mut Lane,
    call: &Call<'_>,
    window: Option<u64>,
    mut patient: Patient,
) -> Result<()> {
    let (me, world) = (lane.me(), lane.world());
    let patient = &mut patient;
    if let Some(window) = window.and_then(|offset| Window::new(call, offset, world)) {
        return lane.drive(window, patient);
    }
    match *call {
        Call::Barrier => lane.drive(Meet, patient),
        Call::AllReduce { dtype, op, input, output } => {
            let kernel = Kernel::new(dtype, op, world)?;
            reduce(lane, kernel, dtype.size(), input, Some(output), patient)
        }
        Call::Reduce { dtype, op, input, output, .. } => {
            let kernel = Kernel::new(dtype, op, world)?;
            reduce(lane, kernel, dtype.size(), input, output, patient)
        }
        Call::Broadcast { root, buffer, .. } => {
            let spread = if root.index() == me {
                Spread::new(Some(buffer.into()), Takes::Nothing, None)
            } else {
                Spread::new(None, Takes::One(root.index(), buffer), Some(buffer.len()))
            };
            lane.drive(spread, patient)
        }
        Call::AllGather { input, outputs, .. } => {
            let largest = largest(world, |rank| outputs.part(rank, world).len());
            keep_own(input, outputs.part(me, world));
            let takes = Takes::Everyone { outputs, me, world };
            lane.drive(Spread::new(Some(input), takes, Some(largest)), patient)
        }
        Call::Gather { root, uneven, input, outputs, .. } => {
            let largest = match uneven {
                true => gather_sizes(lane, root.index(), input, outputs, patient)?,
                false => input.len(),
            };
            let takes = match outputs {
                Some(outputs) => {
                    keep_own(input, outputs.part(me, world));
                    Takes::Everyone { outputs, me, world }
                }
                None => Takes::Nothing,
            };
            lane.drive(Spread::new(Some(input), takes, Some(largest)), patient)
        }
        Call::Scatter { root, uneven, inputs, output, .. } => {
            let largest = match uneven {
                true => scatter_sizes(lane, root.index(), inputs, output, patient)?,
                false => output.len(),
            };
            if let Some(inputs) = inputs {
                keep_own(inputs.part(me, world), output);
            }
            let from = (root.index() != me).then_some(root.index());
            let takes = from.map_or(Takes::Nothing, |from| Takes::One(from, output));
            lane.drive(Deal::new(inputs, takes, largest, me, world), patient)
        }
        Call::AllToAll { uneven, inputs, outputs, .. } => {
            let largest = match uneven {
                true => exchange_sizes(lane, inputs, outputs, patient)?,
                false => inputs.part(0, world).len(),
            };
            keep_own(inputs.part(me, world), outputs.part(me, world));
            let takes = Takes::Everyone { outputs, me, world };
            lane.drive(Deal::new(Some(inputs), takes, largest, me, world), patient)
        }
        Call::ReduceScatter { dtype, op, inputs, output } => {
            let kernel = Kernel::new(dtype, op, world)?;
            let largest = largest(world, |rank| inputs.part(rank, world).len());
            lane.drive(DealReduce::new(kernel, inputs, output, largest, me, world), patient)
        }
    }
}

/// Combines everyone's input for everyone, or for the ranks that have an output.
#[inline]
fn reduce(
    lane: &mut Lane,
    kernel: Kernel,
    element: usize,
    input: Source<'_>,
    output: Option<Target<'_>>,
    patient: &mut Patient,
) -> Result<()> {
    if input.len() <= one_shot_limit(lane.world()) {
        return lane.drive(OneShot::new(kernel, input, output), patient);
    }
    lane.drive(TwoShot::new(kernel, element, input, output, lane.me(), lane.world()), patient)
}

/// Up to how many bytes it is faster to let every rank combine everything.
fn one_shot_limit(world: usize) -> usize {
    match world {
        1 => usize::MAX,
        2 => 64 << 10,
        _ => (16 << 10) / world,
    }
}

/// This rank's part for itself, unless it is there already.
fn keep_own(from: Source<'_>, to: Target<'_>) {
    if from.as_ptr() != to.as_mut_ptr().cast_const() {
        to.copy_from(from);
    }
}

fn largest(world: usize, size: impl Fn(usize) -> usize) -> usize {
    (0..world).map(size).max().unwrap_or(0)
}

fn gather_sizes(
    lane: &mut Lane,
    root: usize,
    input: Source<'_>,
    outputs: Option<Outputs<'_>>,
    patient: &mut Patient,
) -> Result<usize> {
    let world = lane.world();
    let mut sizes = vec![0; world];
    lane.drive(Tables::new(&[input.len() as u64], |rank, table| sizes[rank] = table[0]), patient)?;
    if let Some(outputs) = outputs {
        for (rank, &sent) in sizes.iter().enumerate() {
            agree(lane, patient, rank, root, sent, outputs.part(rank, world).len() as u64)?;
        }
    }
    bounded(sizes.into_iter().max())
}

fn scatter_sizes(
    lane: &mut Lane,
    root: usize,
    inputs: Option<Inputs<'_>>,
    output: Target<'_>,
    patient: &mut Patient,
) -> Result<usize> {
    let (me, world) = (lane.me(), lane.world());
    let mine: Vec<u64> = match inputs {
        Some(inputs) => (0..world).map(|rank| inputs.part(rank, world).len() as u64).collect(),
        None => vec![output.len() as u64],
    };
    let mut sent = Vec::new();
    let learn = |rank, table: &[u64]| {
        if rank == root {
            sent = table.to_vec();
        }
    };
    lane.drive(Tables::new(&mine, learn), patient)?;
    agree(lane, patient, root, me, sent[me], output.len() as u64)?;
    bounded(sent.into_iter().max())
}

fn exchange_sizes(
    lane: &mut Lane,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    patient: &mut Patient,
) -> Result<usize> {
    let (me, world) = (lane.me(), lane.world());
    let mine: Vec<u64> = (0..world).map(|rank| inputs.part(rank, world).len() as u64).collect();
    let mut for_me = vec![0; world];
    let mut largest = 0;
    let learn = |rank, table: &[u64]| {
        for_me[rank] = table[me];
        largest = largest.max(table.iter().copied().max().unwrap_or(0));
    };
    lane.drive(Tables::new(&mine, learn), patient)?;
    for (rank, sent) in for_me.into_iter().enumerate() {
        agree(lane, patient, rank, me, sent, outputs.part(rank, world).len() as u64)?;
    }
    bounded(Some(largest))
}

/// What one rank sends is what another one expects, or the group fails.
fn agree(
    lane: &mut Lane,
    patient: &Patient,
    from: usize,
    to: usize,
    sent: u64,
    expected: u64,
) -> Result<()> {
    if sent == expected {
        return Ok(());
    }
    Err(lane.disagree(patient, from, to, sent, expected))
}

fn bounded(largest: Option<u64>) -> Result<usize> {
    let largest = largest.unwrap_or(0);
    usize::try_from(largest)
        .ok()
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| Error::Argument(format!("a rank speaks of a part of {largest} bytes")))
}

/// How many chunks of at most so many bytes, at least one: even nothing has to be agreed upon.
fn chunks(bytes: usize, chunk: usize) -> u32 {
    u32::try_from(bytes.div_ceil(chunk).max(1)).expect("memory is smaller than that")
}

/// The part of `bytes` bytes that a chunk covers.
fn chunk_of(bytes: usize, chunk: usize, index: u32) -> std::ops::Range<usize> {
    let start = (index as usize).saturating_mul(chunk).min(bytes);
    start..(start + chunk).min(bytes)
}

/// A rank's slice of so many bytes: whole elements, whole cache lines if there are enough.
fn slice_of(len: usize, element: usize, rank: usize, world: usize) -> std::ops::Range<usize> {
    let grain = if len >= world * LINE { LINE.max(element) } else { element };
    let each = len.div_ceil(world).next_multiple_of(grain);
    let start = (rank * each).min(len);
    start..(start + each).min(len)
}

/// How much of a buffer each of `world` parts gets: whole cache lines.
fn slot(world: usize) -> usize {
    (Ground::BUFFER / world) & !(LINE - 1)
}

const LINE: usize = 64;
