//! What every store promises: the conformance suite of [`Store`](consort_store::Store).
//!
//! One function per promise, sorted by subject: [`values`], [`numbers`], [`waiting`],
//! [`deadlines`], [`queues`], [`types`], [`barriers`], [`limits`], [`handles`], and [`random`]
//! requests against a [`model`]. [`store_conformance!`](crate::store_conformance) makes a test of
//! each for one store. What only some stores promise
//! ([`queues::waiting_pops_are_served_in_the_order_they_came`]) is left to tests of one's own;
//! what needs several [`processes`] has a macro of its own,
//! [`store_across_processes!`](crate::store_across_processes).
//!
//! ```
//! use std::sync::Arc;
//! use consort_store::MemStore;
//!
//! consort_testkit::store_conformance!(mem_store, || Arc::new(MemStore::new()));
//! # fn main() {}
//! ```

pub mod barriers;
pub mod deadlines;
pub mod handles;
pub mod limits;
pub mod model;
pub mod numbers;
pub mod processes;
pub mod queues;
pub mod random;
pub mod types;
pub mod values;
pub mod waiting;

mod pending;
mod subject;

pub use subject::{Failed, Subject, Verdict};

/// Makes a module with one test for every promise that one process can check.
///
/// The second argument is a closure that makes a new, empty store each time it is called and
/// returns it as an `Arc`. What has to live as long as the stores (a server, a directory) the
/// closure owns. A store with less room for keys than others says so with `longest_key`.
///
/// ```
/// use std::sync::Arc;
/// use consort_store::{Limits, MemStore, PrefixStore};
///
/// consort_testkit::store_conformance!(
///     prefix_store,
///     || Arc::new(PrefixStore::new("part", MemStore::new())),
///     longest_key = Limits::STANDARD.key - "part/".len()
/// );
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($module:ident, $make:expr $(, longest_key = $longest:expr)? $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "the maker may need nothing from around it")]
            use super::*;

            fn subject() -> $crate::store::Subject {
                $crate::store::Subject::new($make)$(.longest_key($longest))?
            }

            $crate::store_conformance! { @tests
                values {
                    a_value_that_was_set_is_read_back,
                    a_set_replaces,
                    keys_are_any_text,
                    deleted_keys_are_gone,
                    keys_are_counted_and_listed_in_order,
                    an_append_creates_and_extends,
                    appends_of_many_threads_are_all_there,
                    compare_set_swaps_only_what_is_expected,
                    compare_set_tells_missing_from_empty,
                    contended_compare_sets_lose_no_update,
                    multi_get_answers_in_the_order_asked,
                    multi_set_creates_and_replaces,
                    a_refused_multi_set_changes_nothing,
                    readers_never_see_half_a_multi_set,
                }
                numbers {
                    an_add_counts_from_zero,
                    a_number_is_decimal_text,
                    an_add_to_text_is_refused,
                    an_add_beyond_64_bits_is_refused,
                    adds_of_many_threads_are_each_counted_once,
                }
                waiting {
                    a_get_is_woken_by_set,
                    a_get_is_woken_by_multi_set,
                    a_get_is_woken_by_add,
                    a_get_is_woken_by_append,
                    a_get_is_woken_by_compare_set,
                    a_get_is_told_that_its_key_became_a_queue,
                    a_get_is_told_that_its_key_became_a_barrier,
                    a_multi_get_waits_for_its_last_key,
                    a_get_of_a_change_waits_for_another_value,
                    a_wait_is_woken_by_every_verb_that_creates,
                    a_wait_needs_all_keys_at_one_moment,
                    an_empty_wait_is_satisfied,
                    one_set_wakes_every_waiter,
                }
                deadlines {
                    a_passed_deadline_looks_once,
                    a_deadline_is_kept_and_names_what_was_missing,
                    many_missing_keys_are_counted_and_some_named,
                    without_a_deadline_a_get_waits_on,
                    check_looks_without_waiting,
                    a_call_that_gave_up_disturbs_no_later_one,
                }
                queues {
                    a_queue_gives_back_in_order,
                    a_pop_waits_for_a_push,
                    a_pop_is_told_that_its_key_became_a_value,
                    an_empty_queue_has_no_key,
                    each_element_goes_to_one_of_many_poppers,
                    pops_that_give_up_lose_nothing,
                }
                types {
                    a_value_is_neither_queue_nor_barrier,
                    a_queue_is_neither_value_nor_barrier,
                    a_barrier_is_neither_value_nor_queue,
                }
                barriers {
                    a_barrier_of_one_is_open,
                    nobody_overtakes_in_many_rounds,
                    a_barrier_is_not_deleted_under_those_who_wait,
                    handles_meet_at_a_barrier,
                    the_last_to_come_passes_without_waiting,
                    a_barrier_that_gives_up_names_who_is_missing_and_is_clean_again,
                    another_world_is_refused_and_harms_nobody,
                    a_rank_out_of_range_is_refused,
                    a_rank_that_is_there_already_is_refused,
                }
                limits {
                    an_empty_key_is_refused_by_every_verb,
                    the_longest_key_works_and_a_longer_one_is_refused,
                    the_largest_value_works_and_a_larger_one_is_refused,
                    an_append_may_fill_a_value_but_not_overfill_it,
                    a_reply_over_the_message_limit_is_refused,
                }
                handles {
                    a_duplicate_sees_the_same_data,
                    a_duplicate_outlives_its_original,
                    a_blocked_call_does_not_stall_other_threads,
                    answers_reach_the_thread_that_asked,
                    waiting_threads_of_one_handle_each_get_their_own,
                }
                random {
                    any_sequence_of_requests_is_answered_like_the_model,
                }
            }
        }
    };
    (@tests $($group:ident { $($case:ident,)+ })+) => {
        $($(
            #[test]
            fn $case() -> $crate::store::Verdict {
                $crate::store::$group::$case(&subject())
            }
        )+)+
    };
}
