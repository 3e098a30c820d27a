//! How calls on values begin.

use super::collective::{Adjoint, Collective};
use super::moving::Moving;
use super::pending::{Both, Pending};
use super::permutation;
use super::plan::Plan;
use super::ranks::Ranks;
use super::value::Value;
use crate::error::Result;
use crate::group::Group;

/// Begins any of the calls. The functions of this module that are called after one are the same with fewer
/// words.
///
/// ```
/// use consort::functional::{Array, Collective, start};
///
/// let group = consort::Group::fake(0, 4)?;
/// let x = Array::new([2, 3], vec![0.5_f32; 6])?;
/// let all = start(Collective::AllGather { dim: 1 }, &x, &group)?;
/// assert_eq!(all.get()?.shape(), [2, 12]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// When the call makes no sense, as [`Collective::meta`] says, or the group cannot be had. Nothing is
/// moved then, and the group goes on. What happens later is told by the [`Pending`].
#[track_caller]
pub fn start<V: Value>(collective: Collective, x: &V, ranks: impl Ranks) -> Result<Pending<V>> {
    let group = ranks.group()?;
    start_planned(Plan::new(collective, x, &group)?, x, &group, None)
}

impl Adjoint {
    /// Begins to take a gradient back. What comes has to be multiplied by the [`factor`](Self::factor).
    ///
    /// It is [`start`], but for what the ranks have to agree on: one that takes a gradient back and one that
    /// makes the same call for a value make different calls, and so do ranks that go back through different
    /// ones. `back_through` is a number of the call through which the gradient goes back, the same on all
    /// ranks: how many calls on values there were before, for instance.
    ///
    /// ```
    /// use consort::functional::Collective;
    ///
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let back = Collective::AllGather { dim: 0 }.adjoint(group.world())?;
    /// let gradient_of_all = vec![0.5_f32; 2 * group.world()];
    /// let gradient = back.start(&gradient_of_all, 1, &group)?;
    /// assert_eq!((gradient.get()?.len(), back.factor), (2, 1.0));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`start`].
    #[track_caller]
    pub fn start<V: Value>(
        &self,
        gradient: &V,
        back_through: u64,
        ranks: impl Ranks,
    ) -> Result<Pending<V>> {
        let group = ranks.group()?;
        let plan = Plan::new(self.collective.clone(), gradient, &group)?;
        let plan = Plan { back_through: Some(back_through), ..plan };
        start_planned(plan, gradient, &group, None)
    }
}

/// As [`start`], with the result in the memory of `out`.
#[track_caller]
pub(super) fn start_out<V: Value>(
    collective: Collective,
    x: &V,
    out: V,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    let group = ranks.group()?;
    let plan = Plan::new(collective, x, &group)?;
    plan.check_room(&out.meta()?)?;
    start_planned(plan, x, &group, Some(out.into_memory()?))
}

/// As [`start`], with the result in the memory of the value, which is replaced.
#[track_caller]
pub(super) fn start_in_place<V: Value>(
    collective: Collective,
    x: V,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    let group = ranks.group()?;
    let plan = Plan::new(collective, &x, &group)?;
    let moving = Moving::in_place(x.into_memory()?, &plan, &group);
    let work = group.call_async(moving)?;
    Ok(Pending::after(work, move |moved| Ok(V::from_memory(moved?.arrive(&plan, None)?, plan.y))))
}

/// Begins several calls that are carried out together, with nothing between them, and gives all results at
/// once, in the order of the calls. They may be of different kinds, on values of different shapes. All are
/// looked at before any is begun.
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::{Collective, coalesced};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (loss, weights) = (vec![0.5_f32], vec![1.0, 2.0]);
/// let average = Collective::AllReduce { op: ReduceOp::Avg };
/// let both = coalesced(&[(average, &loss), (Collective::AllGather { dim: 0 }, &weights)], &group)?;
/// assert_eq!(both.wait()?, [[0.5].to_vec(), [1.0, 2.0].to_vec()]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// As [`start`]. None of the calls was made then.
#[track_caller]
pub fn coalesced<V: Value>(
    calls: &[(Collective, &V)],
    ranks: impl Ranks,
) -> Result<Pending<Vec<V>>> {
    let group = ranks.group()?;
    let plan = |(collective, x): &(Collective, &V)| Plan::new(collective.clone(), *x, &group);
    let plans = calls.iter().map(plan).collect::<Result<Vec<_>>>()?;
    let planned = || calls.iter().map(|(_, x)| *x).zip(&plans);
    let moving = start_together(planned().filter(|(_, plan)| !plan.is_message()), &group)?;
    let messages = planned()
        .filter(|(_, plan)| plan.is_message())
        .map(|(x, plan)| start_planned(plan.clone(), x, &group, None))
        .collect::<Result<Vec<_>>>()?;
    Ok(Pending::after(Both(moving, Pending::all(messages)), move |done| {
        let (moved, messages) = done?;
        let (mut moved, mut messages) = (moved.into_iter(), messages.into_iter());
        let each = |plan: &Plan| if plan.is_message() { messages.next() } else { moved.next() };
        Ok(plans.iter().filter_map(each).collect())
    }))
}

#[track_caller]
fn start_planned<V: Value>(
    plan: Plan,
    x: &V,
    group: &Group,
    mut given: Option<V::Memory>,
) -> Result<Pending<V>> {
    if let Collective::Permute { pairs } = &plan.collective {
        return permutation::begin(pairs, &plan, x, group);
    }
    let moving = Moving::copy_of(x, &plan, group, &mut given)?;
    let work = group.call_async(moving)?;
    Ok(Pending::after(work, move |moved| Ok(V::from_memory(moved?.arrive(&plan, given)?, plan.y))))
}

/// Begins calls as one.
#[track_caller]
fn start_together<'a, V: Value>(
    calls: impl Iterator<Item = (&'a V, &'a Plan)>,
    group: &Group,
) -> Result<Pending<Vec<V>>> {
    let (mut plans, mut moving) = (Vec::new(), Vec::new());
    for (x, plan) in calls {
        moving.push(Moving::copy_of(x, plan, group, &mut None)?);
        plans.push(plan.clone());
    }
    if moving.is_empty() {
        return Ok(Pending::ready(Vec::new()));
    }
    let work = group.coalesced(|calls| {
        moving.into_iter().map(|moving| Ok(calls.call(moving)?)).collect::<Result<Vec<_>>>()
    })?;
    Ok(Pending::after(work, move |moved| {
        let arrive = |(moving, plan): (Moving<V::Memory>, Plan)| {
            Ok(V::from_memory(moving.arrive(&plan, None)?, plan.y))
        };
        moved?.into_iter().zip(plans).map(arrive).collect()
    }))
}
