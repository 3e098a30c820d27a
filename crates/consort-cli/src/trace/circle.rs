//! A group as all its ranks have recorded it.

use std::collections::BTreeMap;

use consort::trace::{CallTrace, GroupTrace, RankTrace};

/// What ranks have recorded of one group.
#[derive(Debug)]
pub(crate) struct Circle<'a> {
    /// The group's name.
    pub(crate) name: &'a str,
    /// Those who have recorded something of it, in the order of their ranks in the world.
    pub(crate) ranks: Vec<(&'a RankTrace, &'a GroupTrace)>,
}

/// A call as each rank has recorded it.
#[derive(Debug)]
pub(crate) struct Meeting<'a> {
    /// Which of the group's calls it is.
    pub(crate) number: u64,
    /// Who has begun it.
    pub(crate) calls: Vec<(&'a RankTrace, &'a CallTrace)>,
    /// Who has not begun it yet, of those who have recorded something of the group.
    pub(crate) missing: Vec<u32>,
}

/// All groups, in the order in which the first of their ranks came into them.
pub(crate) fn circles(ranks: &[RankTrace]) -> Vec<Circle<'_>> {
    let mut circles: Vec<Circle<'_>> = Vec::new();
    for rank in ranks {
        for group in &rank.groups {
            let is_same = |circle: &&mut Circle<'_>| {
                circle.name == group.name && circle.ranks[0].1.members == group.members
            };
            match circles.iter_mut().find(is_same) {
                Some(circle) => circle.ranks.push((rank, group)),
                None => circles.push(Circle { name: &group.name, ranks: vec![(rank, group)] }),
            }
        }
    }
    circles
}

impl<'a> Circle<'a> {
    /// The calls of which it is known of every rank when it began, or that it has not yet. Older ones
    /// some have forgotten.
    pub(crate) fn meetings(&self) -> Vec<Meeting<'a>> {
        let mut calls: BTreeMap<u64, Vec<(&RankTrace, &CallTrace)>> = BTreeMap::new();
        for (rank, group) in &self.ranks {
            for call in &group.calls {
                calls.entry(call.number).or_default().push((rank, call));
            }
        }
        let meeting = |(number, calls): (u64, Vec<(&'a RankTrace, &'a CallTrace)>)| {
            let missing = self.ranks.iter().filter(|(_, group)| last_of(group) < number);
            let missing: Vec<u32> = missing.map(|(rank, _)| rank.rank).collect();
            let is_known = calls.len() + missing.len() == self.ranks.len();
            is_known.then_some(Meeting { number, calls, missing })
        };
        calls.into_iter().filter_map(meeting).collect()
    }
}

/// The last call that a rank has begun in a group.
pub(crate) fn last_of(group: &GroupTrace) -> u64 {
    group.calls.last().map_or(0, |call| call.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{call, job};

    #[test]
    fn calls_that_somebody_has_forgotten_are_left_out() {
        let some = [call(5, 10, Some(11)), call(6, 12, Some(13))];
        let job = job(&[&[call(4, 1, Some(2)), some[0], some[1]], &some, &some[..1]]);
        let circles = circles(&job.ranks);
        let [circle] = &circles[..] else { panic!("{circles:?}") };
        let found: Vec<_> = circle
            .meetings()
            .iter()
            .map(|it| (it.number, it.calls.len(), it.missing.clone()))
            .collect();
        assert_eq!(found, [(5, 3, vec![]), (6, 2, vec![2])]);
    }

    #[test]
    fn groups_of_the_same_name_with_other_ranks_are_others() {
        let mut job = job(&[&[], &[]]);
        job.ranks[1].groups[0].members = vec![1];
        assert_eq!(circles(&job.ranks).len(), 2);
    }
}
