//! Barriers: all come before any goes on, again and again.

use std::sync::{Mutex, PoisonError};
use std::thread;

use consort_store::{Deadline, Error, Missing, Refusal, Store};

use super::pending::Pending;
use super::subject::{Subject, Verdict, missing, refusal, shortly, soon};

/// Whenever it is used.
pub fn a_barrier_of_one_is_open(subject: &Subject) -> Verdict {
    let store = subject.store();
    for _ in 0..3 {
        store.barrier("barrier", 0, 1, Deadline::now())?;
    }
    Ok(())
}

/// Fifty rounds of four threads on one handle and one key.
pub fn nobody_overtakes_in_many_rounds(subject: &Subject) -> Verdict {
    let store = subject.store();
    let arrived = Mutex::new([0_u32; 50]);
    let arrived = || arrived.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for rank in 0..4 {
            let (store, arrived) = (&store, &arrived);
            scope.spawn(move || {
                for round in 0..50 {
                    arrived()[round] += 1;
                    store.barrier("barrier", rank, 4, soon()).expect("barrier");
                    assert_eq!(arrived()[round], 4, "round {round}");
                }
            });
        }
    });
    Ok(())
}

/// Else who waits could not tell the end of the barrier from a passage.
pub fn a_barrier_is_not_deleted_under_those_who_wait(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store, |store| store.barrier("barrier", 1, 2, Deadline::never()));
    waiter.assert_waiting();
    let expected = Refusal::BarrierInUse { key: "barrier".to_owned(), waiting: 1 };
    assert_eq!(refusal(store.delete("barrier")), expected);
    store.barrier("barrier", 0, 2, soon())?;
    waiter.answer()?;
    assert!(store.delete("barrier")?);
    Ok(())
}

/// Each rank has its own.
pub fn handles_meet_at_a_barrier(subject: &Subject) -> Verdict {
    let store = subject.store();
    let other = store.duplicate()?;
    for _ in 0..3 {
        let waiter =
            Pending::start(&other, |store| store.barrier("barrier", 1, 2, Deadline::never()));
        waiter.assert_waiting();
        store.barrier("barrier", 0, 2, soon())?;
        waiter.answer()?;
    }
    Ok(())
}

/// A passed deadline looks once, and that is enough for the last one.
pub fn the_last_to_come_passes_without_waiting(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store, |store| store.barrier("barrier", 0, 2, Deadline::never()));
    store.barrier("barrier", 1, 2, Deadline::now())?;
    waiter.answer()?;
    Ok(())
}

/// Who gave up has not been there: a later round needs that rank again.
pub fn a_barrier_that_gives_up_names_who_is_missing_and_is_clean_again(
    subject: &Subject,
) -> Verdict {
    let store = subject.store();
    let gave_up = store.barrier("barrier", 2, 4, shortly());
    assert!(matches!(gave_up, Err(Error::Timeout { verb: "barrier", .. })), "{gave_up:?}");
    assert_eq!(missing(gave_up), ranks(&[0, 1, 3]));

    let early: Vec<_> = [0, 1, 3].map(|rank| arrive(&store, rank)).into();
    early.iter().for_each(Pending::assert_waiting);
    assert_eq!(refusal(store.barrier("barrier", 0, 3, soon())), other_world(4, 3));
    store.barrier("barrier", 2, 4, soon())?;
    for waiter in early {
        waiter.answer()?;
    }

    let alone = missing(store.barrier("barrier", 1, 4, Deadline::now()));
    assert_eq!(alone, ranks(&[0, 2, 3]));
    Ok(())
}

/// Who waits goes on waiting, and the right number lets all pass.
pub fn another_world_is_refused_and_harms_nobody(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store, |store| store.barrier("barrier", 0, 2, Deadline::never()));
    assert_eq!(refusal(store.barrier("barrier", 1, 3, soon())), other_world(2, 3));
    waiter.assert_waiting();
    store.barrier("barrier", 1, 2, soon())?;
    waiter.answer()?;
    Ok(())
}

/// And leaves no barrier behind.
pub fn a_rank_out_of_range_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    for (rank, world) in [(4, 4), (0, 0), (u32::MAX, 2)] {
        assert_misplaced(refusal(store.barrier("barrier", rank, world, soon())), rank, world);
    }
    assert_eq!(store.num_keys()?, 0);
    store.barrier("barrier", 0, 1, soon())?;
    Ok(())
}

/// The first arrival stands.
pub fn a_rank_that_is_there_already_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store, |store| store.barrier("barrier", 0, 2, Deadline::never()));
    assert_misplaced(refusal(store.barrier("barrier", 0, 2, soon())), 0, 2);
    waiter.assert_waiting();
    store.barrier("barrier", 1, 2, soon())?;
    waiter.answer()?;
    Ok(())
}

fn arrive(store: &std::sync::Arc<dyn Store>, rank: u32) -> Pending<consort_store::Result<()>> {
    Pending::start(store, move |store| store.barrier("barrier", rank, 4, Deadline::never()))
}

fn ranks(ranks: &[u32]) -> Missing {
    Missing::collect(ranks.iter().map(|rank| format!("rank {rank}")))
}

fn other_world(expected: u32, given: u32) -> Refusal {
    Refusal::BarrierWorld { key: "barrier".to_owned(), expected, given }
}

#[track_caller]
fn assert_misplaced(refused: Refusal, expected_rank: u32, expected_world: u32) {
    let Refusal::BarrierRank { key, rank, world, reason } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!((key.as_str(), *rank, *world), ("barrier", expected_rank, expected_world));
    assert!(!reason.is_empty());
}
