//! More ranks than show each other all their cards.

use std::time::Duration;

use consort::{Error, ReduceOp, Transport};
use consort_testkit::skip;

use super::{invited, ranks, works};

#[test]
fn many_ranks_agree_and_if_not_all_are_told_of_both_calls() {
    let ranks = match ranks(MANY) {
        Ok(ranks) => ranks.limit(Duration::from_secs(110)),
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        works(&group);
        let count = if ctx.rank() == 5 { 4 } else { 3 };
        let mut numbers = vec![1.0_f64; count];
        let error = group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
        assert!(group.barrier().is_err(), "it goes on");
        error.to_string()
    });
    for error in errors.expect_all() {
        for part in ["rank 5 made", "all_reduce(sum) of 3 f64", "all_reduce(sum) of 4 f64"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

/// One more than show all their cards.
const MANY: u32 = 17;
