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
//! | [`Direct`] | where its data is | copies it from there: all_gather and all_to_all, medium |
//! | [`Window`] | where its operand is | works on it there: operands in symmetric memory |
//! | [`Tables`](tables::Tables) | the sizes that it knows | learns the largest: before all with uneven parts |

mod deal;
mod direct;
mod reduce;
mod sizes;
mod spread;
mod tables;
#[cfg(test)]
mod tests;
mod way;
mod window;

use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use self::deal::{Deal, DealReduce};
use self::direct::{Direct, Offers};
use self::reduce::{OneShot, TwoShot};
use self::sizes::{is_uneven, largest_part};
use self::spread::{Meet, Spread, Takes};
use self::way::Way;
pub(super) use self::window::Place;
use self::window::Window;
use super::drive::{GoOn, Turns};
use super::ground::Ground;
use super::lane::Lane;
use super::pace::at_once;
use super::patient::Patient;
use crate::call::Call;
use crate::error::Result;

/// Carries out a call that was checked and counted, on the spot.
#[inline]
pub(super) fn run(
    lane: &mut Lane,
    call: &Call<'_>,
    window: Option<Place>,
    patient: &mut Patient<'_>,
) -> Result<()> {
    let largest = match is_uneven(call) {
        true => at_once(largest_part(lane, call, patient))?,
        false => 0,
    };
    let scene = Scene::new(lane, window, largest);
    turns(call, scene, OnTheSpot { lane, patient })?
}

/// Carries out a call that was checked and counted, and lets its thread do something else when it
/// has to wait.
pub(super) async fn run_elsewhere(
    lane: &mut Lane,
    call: &Call<'_>,
    window: Option<Place>,
    patient: &mut Patient<'_>,
) -> Result<()> {
    let largest = match is_uneven(call) {
        true => largest_part(lane, call, patient).await?,
        false => 0,
    };
    let drive = turns(call, Scene::new(lane, window, largest), Boxed(lane))??;
    lane.go_on(drive, patient).await
}

/// What else decides how a call is carried out. All but `me` and `window` are the same on all ranks.
#[derive(Clone, Copy, Debug)]
struct Scene {
    me: usize,
    world: usize,
    /// Where in this rank's arena the call's memory lies, if it is to be worked on there.
    window: Option<Place>,
    /// The size of the largest of uneven parts.
    largest: usize,
    /// Whether ranks can reach each other's private memory.
    reachable: bool,
}

impl Scene {
    #[inline]
    fn new(lane: &Lane, window: Option<Place>, largest: usize) -> Self {
        let (me, world, reachable) = (lane.me(), lane.world(), lane.is_reachable());
        Self { me, world, window, largest, reachable }
    }

    /// Whether parts of so many bytes are best read from where they are.
    #[inline]
    fn is_direct(&self, part: usize) -> bool {
        self.reachable && direct::is_worth_it(part, self.world)
    }
}

/// Who takes the turns of an operation.
trait Driver<'a> {
    type Driven;
    fn drive(self, turns: impl Turns + 'a) -> Self::Driven;
}

struct OnTheSpot<'l, 'p> {
    lane: &'l mut Lane,
    patient: &'l mut Patient<'p>,
}

impl<'a> Driver<'a> for OnTheSpot<'_, '_> {
    type Driven = Result<()>;

    #[inline]
    fn drive(self, turns: impl Turns + 'a) -> Result<()> {
        self.lane.drive(turns, self.patient)
    }
}

/// Makes them all of one type, to be taken later.
struct Boxed<'l>(&'l mut Lane);

impl<'a> Driver<'a> for Boxed<'_> {
    type Driven = Result<Box<dyn GoOn + 'a>>;

    fn drive(self, turns: impl Turns + 'a) -> Self::Driven {
        Ok(Box::new(self.0.prepare(turns)?))
    }
}

/// Gives the turns of a call to a driver.
#[inline]
fn turns<'a, D: Driver<'a>>(call: &Call<'a>, scene: Scene, driver: D) -> Result<D::Driven> {
    let Scene { me, world, window, largest, .. } = scene;
    if let Some(window) = window.and_then(|place| Window::new(call, place, world)) {
        return Ok(driver.drive(window));
    }
    Ok(match *call {
        Call::Barrier => driver.drive(Meet),
        Call::AllReduce { dtype, op, input, output } => {
            let kernel = Kernel::new(dtype, op, world)?;
            reduce(kernel, dtype.size(), input, Some(output), me, world, driver)
        }
        Call::Reduce { dtype, op, input, output, .. } => {
            let kernel = Kernel::new(dtype, op, world)?;
            reduce(kernel, dtype.size(), input, output, me, world, driver)
        }
        Call::Broadcast { root, buffer, .. } => driver.drive(if root.index() == me {
            Spread::new(Some(buffer.into()), Takes::Nothing, None, Way::Through)
        } else {
            let (takes, len) = (Takes::One(root.index(), buffer), buffer.len());
            Spread::new(None, takes, Some(len), Way::of(len, world))
        }),
        Call::AllGather { input, outputs, .. } => {
            let largest = largest_of(world, |rank| outputs.part(rank, world).len());
            let takes = Takes::Everyone { outputs, me, world };
            let own = (input, outputs.part(me, world));
            // What several ranks take is better fetched once, into a cache that they share.
            if world == 2 && scene.is_direct(largest) {
                return Ok(driver.drive(Direct::new(Offers::Same(input), takes, own, world)));
            }
            let way = Way::of(largest * world, world);
            keep_own(own, way);
            driver.drive(Spread::new(Some(input), takes, Some(largest), way))
        }
        Call::Gather { uneven, input, outputs, .. } => {
            let largest = if uneven { largest } else { input.len() };
            let way = Way::of(largest, world);
            let takes = match outputs {
                Some(outputs) => {
                    keep_own((input, outputs.part(me, world)), way);
                    Takes::Everyone { outputs, me, world }
                }
                None => Takes::Nothing,
            };
            driver.drive(Spread::new(Some(input), takes, Some(largest), way))
        }
        Call::Scatter { root, uneven, inputs, output, .. } => {
            let largest = if uneven { largest } else { output.len() };
            let way = Way::of(largest, world);
            if let Some(inputs) = inputs {
                keep_own((inputs.part(me, world), output), way);
            }
            let from = (root.index() != me).then_some(root.index());
            let takes = from.map_or(Takes::Nothing, |from| Takes::One(from, output));
            driver.drive(Deal::new(inputs, takes, largest, me, world, way))
        }
        Call::AllToAll { uneven, inputs, outputs, .. } => {
            let largest = if uneven { largest } else { inputs.part(0, world).len() };
            let takes = Takes::Everyone { outputs, me, world };
            let own = (inputs.part(me, world), outputs.part(me, world));
            if scene.is_direct(largest) {
                let offers = Offers::of_parts(inputs, outputs, world);
                return Ok(driver.drive(Direct::new(offers, takes, own, world)));
            }
            let way = Way::of(largest * world, world);
            keep_own(own, way);
            driver.drive(Deal::new(Some(inputs), takes, largest, me, world, way))
        }
        Call::ReduceScatter { dtype, op, inputs, output } => {
            let kernel = Kernel::new(dtype, op, world)?;
            let largest = largest_of(world, |rank| inputs.part(rank, world).len());
            driver.drive(DealReduce::new(kernel, inputs, output, largest, me, world))
        }
    })
}

/// Combines everyone's input for everyone, or for the ranks that have an output.
#[inline]
fn reduce<'a, D: Driver<'a>>(
    kernel: Kernel,
    element: usize,
    input: Source<'a>,
    output: Option<Target<'a>>,
    me: usize,
    world: usize,
    driver: D,
) -> D::Driven {
    if input.len() <= one_shot_limit(world, element) {
        return driver.drive(OneShot::new(kernel, input, output));
    }
    driver.drive(TwoShot::new(kernel, element, input, output, me, world))
}

/// Up to how many bytes it is faster to let every rank combine everything.
#[inline]
fn one_shot_limit(world: usize, element: usize) -> usize {
    match world {
        1 => usize::MAX,
        // Small numbers have to be widened and rounded, which takes longer than moving them.
        2 if element < size_of::<f32>() => 8 << 10,
        2 => 32 << 10,
        _ => (16 << 10) / world,
    }
}

/// This rank's part for itself, unless it is there already.
fn keep_own((from, to): (Source<'_>, Target<'_>), way: Way) {
    if from.as_ptr() != to.as_mut_ptr().cast_const() {
        way.copy(from, to);
    }
}

fn largest_of(world: usize, size: impl Fn(usize) -> usize) -> usize {
    (0..world).map(size).max().unwrap_or(0)
}

/// How many chunks of at most so many bytes, at least one: even nothing has to be agreed upon.
#[inline]
fn chunks(bytes: usize, chunk: usize) -> u32 {
    u32::try_from(bytes.div_ceil(chunk).max(1)).expect("memory is smaller than that")
}

/// A chunk, in whole cache lines, of which as many are needed as of the largest, so that the last
/// one is not much smaller than the others.
#[inline]
fn even_chunk(bytes: usize, largest: usize) -> usize {
    bytes.max(1).div_ceil(bytes.div_ceil(largest).max(1)).next_multiple_of(LINE)
}

/// The part of `bytes` bytes that a chunk covers.
#[inline]
fn chunk_of(bytes: usize, chunk: usize, index: u32) -> std::ops::Range<usize> {
    let start = (index as usize).saturating_mul(chunk).min(bytes);
    start..(start + chunk).min(bytes)
}

/// A rank's slice of so many bytes: whole elements, whole cache lines if there are enough.
pub(super) fn slice_of(
    len: usize,
    element: usize,
    rank: usize,
    world: usize,
) -> std::ops::Range<usize> {
    let grain = if len >= world * LINE { LINE.max(element) } else { element };
    let each = len.div_ceil(world).next_multiple_of(grain);
    let start = (rank * each).min(len);
    start..(start + each).min(len)
}

/// How much of a buffer each of `world` parts gets: whole cache lines, at least one, for a lane has
/// no more than [`MOST`](super::lane::MOST) ranks.
fn slot(world: usize) -> usize {
    (Ground::BUFFER / world) & !(LINE - 1)
}

const LINE: usize = 64;
