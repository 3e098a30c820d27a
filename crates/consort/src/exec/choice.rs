//! Which algorithm is used: one that was named, where it can be, or the best one.

use consort_plan::{Collective, Layout, algo, choose};
use consort_sys::dtype::{Dtype, ReduceOp};

use super::plan::{Numbers, SMALL};
use super::recipe::Recipe;
use crate::error::{Error, Result};

/// What the ranks of a group have agreed upon.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    algorithm: Option<&'static str>,
    layout: Layout,
    /// How many ranks each of them stands for, with what they have combined before.
    each: usize,
    /// Whether they share so few cores that every message counts, whoever sends it.
    is_crowded: bool,
}

impl Choices {
    /// An algorithm to be used wherever it can be, if any is named, and where the ranks are.
    ///
    /// # Errors
    /// When no algorithm has this name.
    pub(crate) fn new(algorithm: Option<&str>, layout: Layout) -> Result<Self> {
        let known = |name: &str| {
            let known = algo::NAMES.into_iter().find(|it| *it == name);
            let names = || algo::NAMES.join(", ");
            known.ok_or_else(|| {
                Error::Argument(format!("no algorithm {name:?}; choose {}", names()))
            })
        };
        let algorithm = algorithm.map(known).transpose()?;
        Ok(Self { algorithm, layout, each: 1, is_crowded: false })
    }

    /// The same for ranks of one host that has so many cores, if all of them are there.
    ///
    /// If nobody waits for a core, what counts is how many messages follow each other: about as many
    /// as the world has binary digits, in which time every rank sends as many. But here they wait for
    /// each other's cores, and twice as many messages as there are ranks, to and from one of them, are
    /// soon fewer.
    pub(crate) fn sharing(self, cores: usize) -> Self {
        let digits = self.world().ilog2() as usize;
        let is_crowded =
            self.layout.count() == 1 && cores <= digits && self.world() <= MOST_CROWDED;
        Self { is_crowded, ..self }
    }

    /// The same for one rank of each host, who stands for all of them: the sums that they average
    /// are sums of so many ranks already.
    pub(crate) fn of_hosts(&self) -> Self {
        let hosts = self.layout.count();
        let layout = Layout::even(hosts, hosts);
        Self { layout, each: (self.layout.world() / hosts) as usize, ..*self }
    }

    /// What an average divides by.
    pub(super) fn divisor(&self, dtype: Dtype) -> usize {
        if is_small(dtype) { self.world() } else { self.world() * self.each }
    }

    /// Where the ranks are.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many ranks there are.
    pub(super) fn world(&self) -> usize {
        self.layout.world() as usize
    }

    /// The algorithm that was named, if it can do this.
    fn named(&self, op: Collective) -> Option<&'static str> {
        let can = |name: &&str| {
            algo::named(name, &self.layout).is_ok_and(|it| it.supports(op, self.layout.world()))
        };
        self.algorithm.filter(can)
    }

    /// What is best for so many bytes.
    pub(super) fn chosen(&self, op: Collective, bytes: usize) -> &'static str {
        choose::choose(op, bytes as u64, &self.layout).algorithm
    }

    /// The algorithm that was named, for something that moves data as it is, or else the default.
    pub(super) fn moving(&self, op: Collective, default: impl FnOnce() -> Recipe) -> Recipe {
        match self.named(op) {
            _ if self.world() == 1 => Recipe::Plan { algorithm: "flat", op },
            Some(algorithm) => Recipe::Plan { algorithm, op },
            None => default(),
        }
    }

    /// Whether one rank had better do it for all, with a vector of so many bytes.
    pub(super) fn is_for_one(&self, op: Collective, bytes: usize) -> bool {
        let world = self.world();
        // Measured with 4 and 8 ranks on 2 cores. The more messages it saves, the more bytes it may
        // move twice.
        let most = match op {
            Collective::AllReduce => (1 << 20) / world,
            Collective::AllToAll => (world * (16 << 10)).min(128 << 10),
            Collective::AllGather | Collective::ReduceScatter => {
                (world * world * (1 << 10)).min(64 << 10)
            }
            Collective::Barrier => 0,
            _ => return false,
        };
        self.is_crowded && bytes <= most && self.named(op).is_none()
    }

    /// A program that combines on the way, where that may be.
    pub(super) fn combining(
        &self,
        op: Collective,
        bytes: usize,
        numbers: Numbers,
    ) -> Option<Recipe> {
        if !may_combine_in_pairs(numbers) || self.is_for_one(op, bytes) {
            return None;
        }
        let many = || (self.world() > MOST_EXACT).then(|| self.chosen(op, bytes));
        let medium = || self.is_medium(op, bytes).then_some("halving");
        let chosen = self.named(op).or_else(many).or_else(medium);
        chosen.map(|algorithm| Recipe::Plan { algorithm, op })
    }

    /// Whether so much data is best halved from round to round: messages cost more than what is in
    /// them, and there are fewer of them than if every rank wrote to every other.
    fn is_medium(&self, op: Collective, bytes: usize) -> bool {
        let is_small = || bytes * self.world() <= SMALL;
        let has_halves = match op {
            Collective::AllReduce => !is_small(),
            Collective::ReduceScatter => true,
            _ => false,
        };
        has_halves && self.world() > 3 && bytes / self.world() < LARGE_PART
    }
}

/// Whether combining two and two, in the order of an algorithm, is as good as combining all at once:
/// not where that is rounded in the end, or divided by how many there are.
fn may_combine_in_pairs((dtype, op): Numbers) -> bool {
    let is_rounded = is_small(dtype);
    let is_plain = !matches!(op, ReduceOp::Avg | ReduceOp::PremulSum(_));
    is_plain && (!is_rounded || matches!(op, ReduceOp::Min | ReduceOp::Max))
}

/// Whether sums of such numbers soon have no room in them, so that they are averaged at once.
pub(crate) fn is_small(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F8E4m3 | Dtype::F8E5m2)
}

/// Parts of this size are worth a message of their own.
const LARGE_PART: usize = 256 << 10;
/// Up to so many ranks, one can do something for all.
const MOST_CROWDED: usize = 64;
/// Up to so many ranks, operands meet before they are combined.
const MOST_EXACT: usize = 32;
