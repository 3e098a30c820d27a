//! The clocks of hosts laid over each other.
//!
//! Nobody ends a call in which everyone has a part before everyone has begun. So the ends and
//! beginnings of such calls bound by how much one host's clock can be ahead of another's. Where
//! clocks agree with that, they are believed.

use std::collections::HashMap;

use consort::trace::RankTrace;

/// Moves each rank's times so that they can be true together with those of the first.
pub(super) fn align(ranks: &mut [RankTrace]) {
    let Some((first, others)) = ranks.split_first_mut() else { return };
    for other in others {
        let offset = offset(first, other);
        if offset != 0 {
            shift(other, offset);
        }
    }
}

/// What has to be added to the other's times.
fn offset(first: &RankTrace, other: &RankTrace) -> i64 {
    let (mut least, mut most) = (i64::MIN, i64::MAX);
    for group in &other.groups {
        let same =
            first.groups.iter().find(|it| it.name == group.name && it.members == group.members);
        let Some(same) = same else { continue };
        let theirs: HashMap<u64, _> = same.calls.iter().map(|call| (call.number, call)).collect();
        for call in group.calls.iter().filter(|call| call.is_for_all() && !call.has_failed) {
            let Some(one) = theirs.get(&call.number).filter(|one| !one.has_failed) else {
                continue;
            };
            if let Some(ended) = call.ended {
                least = least.max(one.began.wrapping_sub(ended).cast_signed());
            }
            if let Some(ended) = one.ended {
                most = most.min(ended.wrapping_sub(call.began).cast_signed());
            }
        }
    }
    match (least, most) {
        _ if least > most || (least..=most).contains(&0) => 0,
        (i64::MIN, most) => most,
        (least, i64::MAX) => least,
        _ => least + (most - least) / 2,
    }
}

fn shift(rank: &mut RankTrace, offset: i64) {
    let calls = rank.groups.iter_mut().flat_map(|group| &mut group.calls);
    for call in calls {
        let times = [&mut call.queued, &mut call.ended].into_iter().flatten();
        for time in times.chain([&mut call.began]) {
            *time = time.saturating_add_signed(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture;

    /// Two ranks that meet every millisecond, each a little late in turn.
    fn ranks(ahead: i64) -> Vec<RankTrace> {
        let mut ranks = vec![fixture::rank(0, 2), fixture::rank(1, 2)];
        for number in 1..20_u64 {
            let start = 1_000_000_000 + number * 1_000_000;
            let late = [number % 2 * 400_000, (number + 1) % 2 * 400_000];
            for (rank, late) in ranks.iter_mut().zip(late) {
                rank.groups[0].calls.push(fixture::call(
                    number,
                    start + late,
                    Some(start + 410_000),
                ));
            }
        }
        shift(&mut ranks[1], ahead);
        ranks
    }

    #[test]
    fn clocks_that_can_be_right_are_believed() {
        for ahead in [0, 5_000, -5_000] {
            let mut aligned = ranks(ahead);
            align(&mut aligned);
            assert_eq!(
                aligned[1].groups[0].calls[0].began,
                ranks(ahead)[1].groups[0].calls[0].began
            );
        }
    }

    #[test]
    fn clocks_that_cannot_be_right_are_moved() {
        for ahead in [70_000_000, -70_000_000] {
            let mut aligned = ranks(ahead);
            align(&mut aligned);
            let began = aligned[1].groups[0].calls[5].began;
            let right = ranks(0)[1].groups[0].calls[5].began;
            assert!(began.abs_diff(right) < 20_000, "{began} {right}");
        }
    }

    #[test]
    fn ranks_that_never_met_stay_as_they_are() {
        let mut ranks = ranks(70_000_000);
        ranks[1].groups[0].name = "another".to_owned();
        let before = ranks[1].groups[0].calls[0].began;
        align(&mut ranks);
        assert_eq!(ranks[1].groups[0].calls[0].began, before);
    }
}
