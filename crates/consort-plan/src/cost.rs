//! What programs would take on a network: an alpha-beta-gamma clock.
//!
//! Every rank's program is run on a clock of its own. A message takes a way of latency `alpha` and then
//! `beta` for each byte; what is combined takes `gamma` for each byte, what is copied `copy`. Ranks
//! of one host talk over its memory, others over the network, where all ranks of a host share its
//! ports. A rank's sends leave one after the other, and what comes to it arrives one after the other;
//! sending and receiving go on at the same time.
//!
//! Large vectors are cut into *segments*: each runs the whole program for its part of every chunk, and
//! up to [`Pipeline::lanes`] of them are under way on a rank at once. What is ready at the same time
//! leaves in the order `segment × stagger + round`, so that earlier segments go first but do not keep
//! the network to themselves.
//!
//! Two things make thousands of ranks fast. Where every rank does the same as any other, seen from
//! itself ([`Algorithm::turns`]), hosts are alike, and only the ranks of one host are run. And of many
//! segments only some are run, since after a while each takes as long as the one before it
//! ([`Prediction::extrapolated`]).
//!
//! The model knows nothing of congestion inside the network, of operating systems and of other
//! jobs. It says which algorithm is better and by how much, not how many microseconds it takes.

mod clock;
mod network;
mod shape;

pub use network::{Link, Network, UnknownNetwork};

use crate::algo::Algorithm;
use crate::layout::Layout;
use crate::op::Collective;
use clock::Clock;
use shape::Shape;

/// What to predict.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation.
    pub op: Collective,
    /// The bytes of the vector: of the larger one of a rank's two buffers.
    pub bytes: u64,
    /// Which ranks share a host.
    pub layout: Layout,
    /// What is between them.
    pub network: Network,
    /// How vectors are cut.
    pub pipeline: Pipeline,
    /// A link that is slower than the others.
    pub slow_link: Option<SlowLink>,
    /// A rank that comes late.
    pub straggler: Option<Straggler>,
}

/// How vectors are cut into segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// The most bytes of the vector in a segment.
    pub segment: u64,
    /// How many segments are under way on a rank at once.
    pub lanes: u32,
    /// How many rounds a segment is behind the one before it, when both are ready.
    pub stagger: u32,
}

/// The link between two hosts, in both directions, takes so many times as long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowLink {
    /// One host.
    pub one: u32,
    /// The other.
    pub other: u32,
    /// How many times.
    pub factor: f64,
}

/// A rank begins later than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// Which rank.
    pub rank: u32,
    /// Seconds.
    pub delay: f64,
}

/// What an algorithm would take.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Seconds, until the last rank has ended.
    pub seconds: f64,
    /// The segments of the vector.
    pub segments: u64,
    /// Whether only some of the segments were run.
    pub extrapolated: bool,
    /// How many ranks were run; the others do the same.
    pub ranks_run: u32,
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotPredict {
    /// The algorithm has no programs for this.
    #[error("{algorithm} does not support {op} between {world} ranks")]
    Unsupported {
        /// The algorithm.
        algorithm: &'static str,
        /// The operation.
        op: Collective,
        /// The ranks.
        world: u32,
    },
    /// There are too many messages to go through.
    #[error("{algorithm} would take {messages} messages to simulate {op} between {world} ranks")]
    TooLarge {
        /// The algorithm.
        algorithm: &'static str,
        /// The operation.
        op: Collective,
        /// The ranks.
        world: u32,
        /// About how many messages.
        messages: u64,
    },
}

/// Predicts what an algorithm takes.
///
/// # Errors
/// When it does not support the operation, or would send too many messages to simulate them.
pub fn predict(algorithm: &dyn Algorithm, case: &Case) -> Result<Prediction, CannotPredict> {
    let (op, world) = (case.op, case.layout.world());
    if !algorithm.supports(op, world) {
        return Err(CannotPredict::Unsupported { algorithm: algorithm.name(), op, world });
    }
    let period = period(algorithm, case);
    let messages = estimate(algorithm, case, period);
    if messages > MOST_MESSAGES {
        return Err(CannotPredict::TooLarge { algorithm: algorithm.name(), op, world, messages });
    }
    let shapes: Vec<Shape> =
        (0..period).map(|rank| Shape::of(&algorithm.program(op, world, rank))).collect();
    let segments = case.pipeline.segments(case.bytes);
    let run = |segments: u64| Clock::new(case, &shapes, chunk_bytes(case)).run(segments);
    let (few, some) = sample(case.pipeline.lanes, messages);
    let seconds = if segments <= some {
        run(segments)
    } else {
        let (short, long) = (run(few), run(some));
        long + (long - short) / (some - few) as f64 * (segments - some) as f64
    };
    let extrapolated = segments > some;
    Ok(Prediction { seconds, segments, extrapolated, ranks_run: period })
}

impl Pipeline {
    /// How many segments a vector is cut into.
    pub fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.segment.max(1)).max(1)
    }
}

impl Default for Pipeline {
    /// Segments of 1 MiB, four of them at once.
    fn default() -> Self {
        Self { segment: 1 << 20, lanes: 4, stagger: 1 }
    }
}

impl Case {
    /// Without anything slow.
    pub fn new(op: Collective, bytes: u64, layout: Layout, network: Network) -> Self {
        let pipeline = Pipeline::default();
        Self { op, bytes, layout, network, pipeline, slow_link: None, straggler: None }
    }
}

/// The bytes of a chunk of a segment.
fn chunk_bytes(case: &Case) -> f64 {
    case.bytes as f64 / f64::from(case.layout.world()) / case.pipeline.segments(case.bytes) as f64
}

/// After how many ranks everything is the same again.
fn period(algorithm: &dyn Algorithm, case: &Case) -> u32 {
    let Case { layout, slow_link, straggler, .. } = case;
    let alike = slow_link.is_none() && straggler.is_none();
    let regular = layout.is_even() && layout.is_in_order();
    if alike && regular && algorithm.turns(case.op) {
        layout.ranks(0).len() as u32
    } else {
        layout.world()
    }
}

/// About how many messages a segment takes, from the programs of some ranks.
fn estimate(algorithm: &dyn Algorithm, case: &Case, period: u32) -> u64 {
    let world = case.layout.world();
    let root = case.op.root().unwrap_or(0);
    let steps = |rank: u32| algorithm.program(case.op, world, rank).steps().len() as u64;
    let sampled = [(root + 1) % world, (root + world / 2) % world, (root + world / 3) % world];
    let most = sampled.into_iter().map(steps).max().unwrap_or(0);
    steps(root).max(1) + most * u64::from(period)
}

/// How many segments to run at most: some, and before them few. Between them every lane takes its turn
/// as often as any other.
fn sample(lanes: u32, messages: u64) -> (u64, u64) {
    let lanes = u64::from(lanes.max(1));
    let turns = (MOST_MESSAGES / messages.max(1) / lanes).clamp(2, 6);
    (lanes * turns.div_ceil(2), lanes * turns)
}

/// More take more than some seconds and some hundred megabytes.
const MOST_MESSAGES: u64 = 12_000_000;
