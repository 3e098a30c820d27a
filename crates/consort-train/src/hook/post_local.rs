//! Gradients that are averaged by fewer ranks, later.

use std::fmt;

use consort::{ErrorKind, Group};

use super::passes::Passes;
use super::{CommHook, Pending, Round};
use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// Averages gradients over all ranks at first, and later only among some that are near each other, or not at
/// all. What ranks then learn apart, a [`PeriodicAverager`](crate::PeriodicAverager) or
/// [`HierarchicalAverager`](crate::HierarchicalAverager) brings together every few steps.
///
/// # What it does
///
/// For the first so many passes it is [`Average`](crate::Average). Then it averages within a *part* of the
/// group, say the ranks of one host, where that costs little; or it leaves every rank its own gradients.
/// Ranks of different parts take different steps, and their parameters drift apart. Every `period` steps an
/// averager replaces them by their average. Between hosts that moves the model once in `period` steps
/// instead of the gradients in each: `period` times fewer bytes.
///
/// # What it loses
///
/// Between two averages ranks do not have the same parameters: the method is no longer that of one process
/// with all the data, and the larger the period, the less. The optimizer's own memory (momentum) stays each
/// rank's own. It is the first steps that suffer most by this, hence the passes over all ranks before.
///
/// # When to use it
///
/// When hosts are many and the network between them slow, and a few hundred or thousand passes have settled
/// where the model goes. Say [`Unused::Refuse`](crate::Unused::Refuse) as well: otherwise all ranks still
/// tell each other in every pass which parameters had a gradient. It is not for ranks with
/// [uneven inputs](crate::Join): whoever has none left takes no steps, and so averages no models.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, PeriodicAverager, PostLocalSgd, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// // Ranks of a host average their gradients in every step, all average their models in every eighth.
/// let hook = PostLocalSgd::new(1000).within_part(|group| {
///     let is_here = |rank: usize| group.members()[rank].host == group.members()[group.rank().index()].host;
///     let first_here = (0..group.world()).find(|&rank| is_here(rank)).unwrap_or(0);
///     group.split(Some(first_here as u32), 0)
/// });
/// let mut averager = PeriodicAverager::new(&group, 8)?.after(1000);
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[2])];
/// let reducer = Reducer::new(&group, parameters, Options::new().hook(hook))?;
///
/// let mut weight = [1.0_f32, 2.0];
/// for _ in 0..3 {
///     let pass = reducer.begin()?;
///     pass.ready(0, &weight)?;
///     let averages = pass.finish()?;
///     let gradient = averages.gradient::<f32>(0)?.expect("it was used");
///     weight.iter_mut().zip(gradient).for_each(|(weight, by)| *weight -= 0.1 * by);
///     averager.step(&mut [(Dtype::F32, bytemuck::cast_slice_mut(&mut weight))])?;
/// }
/// # Ok::<(), consort_train::Error>(())
/// ```
pub struct PostLocalSgd {
    name: String,
    after: u64,
    part: Part,
    passes: Passes,
}

/// Makes a part of a group, the one that this rank is in.
type Make = Box<dyn FnMut(&Group) -> consort::Result<Option<Group>> + Send>;

/// Those who average among themselves.
enum Part {
    /// `None`: everyone for itself.
    Given(Option<Group>),
    /// A part of a group that the reducer does not have any more.
    Lapsed(String),
    /// `None` while it was not made.
    Made(Make, Option<Option<Group>>),
}

impl PostLocalSgd {
    /// Averages so many passes over all ranks, and then leaves every rank its own gradients. Local passes are
    /// not among them. They are counted anew when the reducer gets another group, in which there may be ranks
    /// that have seen none.
    pub fn new(passes: u64) -> Self {
        Self {
            name: format!("post-local SGD (after {passes} passes)"),
            after: passes,
            part: Part::Given(None),
            passes: Passes::default(),
        }
    }

    /// The same, but it then averages within this part of the reducer's group, to which this rank belongs. A
    /// rank that gives none keeps its own gradients.
    ///
    /// When the reducer gets [another group](crate::Reducer::set_group), the next pass is an error: who can
    /// lose ranks says [`within_part`](Self::within_part).
    #[must_use]
    pub fn within(self, part: impl Into<Option<Group>>) -> Self {
        Self { part: Part::Given(part.into()), ..self }
    }

    /// The same, but it then averages within a part of the reducer's group that `make` gives. It is called in
    /// the first pass on every rank, and again in the first pass with another group.
    #[must_use]
    pub fn within_part(
        self,
        make: impl FnMut(&Group) -> consort::Result<Option<Group>> + Send + 'static,
    ) -> Self {
        Self { part: Part::Made(Box::new(make), None), ..self }
    }
}

impl CommHook for PostLocalSgd {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        // Even if it is not needed for long: what is wrong with it should be seen soon.
        let part = self.part.of(round.group)?;
        if self.passes.number(round) <= self.after {
            return round.average(bucket);
        }
        let Some(part) = part else { return Ok(Pending::new(move || Ok(bucket))) };
        let all = round.group.clone();
        let round = Round { group: part, divisor: part.world(), pass: round.pass };
        let pending = round.average(bucket).map_err(|error| tell(&all, error))?;
        Ok(pending.map_err(move |error| tell(&all, error)))
    }

    fn reset(&mut self) {
        self.passes = Passes::default();
        match &mut self.part {
            Part::Made(_, part) => *part = None,
            Part::Given(Some(part)) => self.part = Part::Lapsed(part.name().to_owned()),
            Part::Given(None) | Part::Lapsed(_) => {}
        }
    }

    fn works_on_devices(&self) -> bool {
        true
    }
}

impl Part {
    /// The part of this group.
    fn of(&mut self, group: &Group) -> Result<Option<&Group>> {
        match self {
            Self::Given(part) => Ok(part.as_ref()),
            Self::Made(make, part) => match part {
                Some(part) => Ok(part.as_ref()),
                None => Ok(part.insert(make(group)?).as_ref()),
            },
            Self::Lapsed(name) => Err(Error::Argument(format!(
                "it was to average within {name:?}, which is no part of {:?}: say how parts are made by \
                 PostLocalSgd::within_part, or make a new reducer",
                group.name()
            ))),
        }
    }
}

/// A part has failed: those in other parts have to hear of it. A death they hear of by themselves, and what it
/// means for the group of all is better known there.
fn tell(all: &Group, error: Error) -> Error {
    if error.kind() != ErrorKind::PeerGone {
        all.abort(&format!("ranks that average among themselves have failed: {error}"));
    }
    error
}

impl fmt::Debug for PostLocalSgd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
