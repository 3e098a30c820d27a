//! How many passes a hook has averaged.

use super::Round;

/// Counts the passes in which a hook is given buckets.
///
/// It is not what [`Round::pass`] says: that counts local passes and those that were dropped, too, and
/// is not the same on a rank that has come later as on those that were there. What has to change on all
/// ranks in the same pass is counted by this, which begins anew when the group is another one.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    last: Option<u64>,
    count: u64,
}

impl Passes {
    /// Which one it is, from 1.
    pub(crate) fn number(&mut self, round: &Round<'_>) -> u64 {
        if self.last.replace(round.pass) != Some(round.pass) {
            self.count += 1;
        }
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_one_pass_count_once_and_passes_without_buckets_do_not() {
        let group = consort::Group::fake(0, 2).unwrap();
        let mut passes = Passes::default();
        let mut number = |pass| passes.number(&Round { group: &group, divisor: 2, pass });
        assert_eq!([1, 1, 1, 4, 4, 5].map(&mut number), [1, 1, 1, 2, 2, 3]);
    }
}
