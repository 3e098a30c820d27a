//! Where operations begin to be carried out in another way.

use consort_sys::board::Board;
use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;

use super::super::drive::Turns;
use super::super::ground::Ground;
use super::direct::is_worth_it;
use super::reduce::OneShot;
use super::way::Way;
use super::window::WORTH_IT;

/// What the tests among real processes believe.
#[path = "../../../tests/collectives/edges.rs"]
mod edges;

/// What to do when one of these fails.
const MOVED: &str = "an edge has moved: say so in tests/collectives/edges.rs, from which the tests \
                     of collectives take their sizes";

#[test]
fn buffers_are_as_large_as_the_tests_of_collectives_believe() {
    assert_eq!(Board::INLINE, edges::INLINE, "{MOVED}");
    assert_eq!(Ground::BUFFER, edges::CHUNK, "{MOVED}");
    assert_eq!(Ground::STAGE, edges::CHUNK, "{MOVED}");
    assert_eq!(Ground::STAGES as usize, edges::STAGES, "{MOVED}");
    for world in 1..=64 {
        assert_eq!(super::slot(world), edges::slot(world), "{MOVED}");
    }
}

#[test]
fn reductions_change_where_the_tests_of_collectives_believe() {
    let posts = |len: usize| {
        let kernel = Kernel::new(Dtype::U8, ReduceOp::Sum, 2).expect("bytes can be added");
        OneShot::new(kernel, vec![0; len][..].into(), None).posts()
    };
    assert_eq!((posts(edges::ONE_SHOT), posts(edges::ONE_SHOT + 1)), (1, 2), "{MOVED}");
    for world in 2..=64 {
        for element in [1, 2, 4, 8, 16] {
            let (limit, believed) =
                (super::one_shot_limit(world, element), edges::one_shot_limit(world, element));
            assert_eq!(limit, believed, "{MOVED}");
        }
    }
}

#[test]
fn memory_is_read_where_it_lies_from_where_the_tests_of_collectives_believe() {
    assert_eq!(WORTH_IT, edges::WINDOW, "{MOVED}");
    assert!(!is_worth_it(edges::DIRECT - 1, 2) && is_worth_it(edges::DIRECT, 2), "{MOVED}");
    let large = edges::PAST_CACHES / 4;
    assert!(is_worth_it(large - 1, 2) && !is_worth_it(large, 2), "{MOVED}");
}

#[test]
fn results_go_past_the_caches_from_where_the_tests_of_collectives_believe() {
    let edge = edges::PAST_CACHES;
    assert_eq!((Way::of(edge - 1, 1), Way::of(edge, 1)), (Way::Through, Way::PastCache), "{MOVED}");
    assert_eq!(Way::of(edge / 4, 4), Way::PastCache, "{MOVED}");
}
