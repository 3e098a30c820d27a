//! Models that are averaged every few steps.

mod pieces;
mod schedule;

use consort::{Dtype, Group};

pub use self::pieces::average;
use self::schedule::Schedule;
use crate::error::Result;

/// Replaces a model's parameters by the average of all ranks' every few steps: for training in which ranks
/// take steps of their own, as with [`PostLocalSgd`](crate::PostLocalSgd).
///
/// ```
/// use consort::Dtype;
/// use consort_train::PeriodicAverager;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let mut weight = [1.0_f32, 2.0];
/// let mut averager = PeriodicAverager::new(&group, 2)?.after(3);
/// let mut averaged = Vec::new();
/// for step in 1..=8 {
///     // … a step of the optimizer …
///     if averager.step(&mut [(Dtype::F32, bytemuck::cast_slice_mut(&mut weight))])? {
///         averaged.push(step);
///     }
/// }
/// assert_eq!(averaged, [5, 7]);
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Debug)]
pub struct PeriodicAverager {
    group: Group,
    schedule: Schedule,
}

impl PeriodicAverager {
    /// Averages over all ranks of this group in every step whose number can be divided by the period: the
    /// same on every rank.
    ///
    /// # Errors
    /// When the period is 0.
    pub fn new(group: &Group, period: u64) -> Result<Self> {
        Ok(Self { group: group.clone(), schedule: Schedule::new(vec![period])? })
    }

    /// Lets so many steps pass before it begins to count: those in which gradients are averaged, and
    /// parameters are the same anyway.
    #[must_use]
    pub fn after(mut self, steps: u64) -> Self {
        self.schedule.after = steps;
        self
    }

    /// A step was taken: averages these parameters if it is time, and says whether it was. Every rank has to
    /// take as many steps, and to give the same pieces.
    ///
    /// # Errors
    /// As [`average`].
    pub fn step(&mut self, pieces: &mut [(Dtype, &mut [u8])]) -> Result<bool> {
        let is_due = self.schedule.step().is_some();
        if is_due {
            average(&self.group, pieces)?;
        }
        Ok(is_due)
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.schedule.taken
    }
}

/// Averages a model among a few ranks often, and among more less often: say within a host every other step,
/// and over all hosts in every sixteenth.
///
/// ```
/// use consort::Dtype;
/// use consort_train::HierarchicalAverager;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// # let host = group.split(Some(0), 0)?.expect("a colour was given");
/// let mut weight = [1.0_f32, 2.0];
/// let mut averager = HierarchicalAverager::new(vec![(2, host), (4, group.clone())])?;
/// let mut worlds = Vec::new();
/// for _ in 1..=4 {
///     // … a step of the optimizer …
///     let among = averager.step(&mut [(Dtype::F32, bytemuck::cast_slice_mut(&mut weight))])?;
///     worlds.push(among.map(|group| group.name().to_owned()));
/// }
/// assert!(worlds[0].is_none() && worlds[1].as_deref() != Some("world") && worlds[2].is_none());
/// assert_eq!(worlds[3].as_deref(), Some("world"));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Debug)]
pub struct HierarchicalAverager {
    groups: Vec<Group>,
    schedule: Schedule,
}

impl HierarchicalAverager {
    /// For these periods, and for each the group of ranks that then average. In a step that several periods
    /// divide, the largest of them counts. All ranks give the same periods, and each the groups it is in.
    ///
    /// # Errors
    /// When there is no period, one is 0, or one is there twice.
    pub fn new(levels: impl IntoIterator<Item = (u64, Group)>) -> Result<Self> {
        let (periods, groups) = levels.into_iter().unzip();
        Ok(Self { groups, schedule: Schedule::new(periods)? })
    }

    /// As [`PeriodicAverager::after`].
    #[must_use]
    pub fn after(mut self, steps: u64) -> Self {
        self.schedule.after = steps;
        self
    }

    /// A step was taken: averages these parameters if it is time, and gives the group in which it did. Every
    /// rank has to take as many steps, and to give the same pieces.
    ///
    /// # Errors
    /// As [`average`].
    pub fn step(&mut self, pieces: &mut [(Dtype, &mut [u8])]) -> Result<Option<&Group>> {
        let Some(level) = self.schedule.step() else { return Ok(None) };
        let group = &self.groups[level];
        average(group, pieces)?;
        Ok(Some(group))
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.schedule.taken
    }
}
