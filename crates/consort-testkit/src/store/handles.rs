//! Handles: several on one store, several threads on one handle.

use std::thread;

use consort_store::{Deadline, Store};

use super::pending::Pending;
use super::subject::{Subject, Verdict, soon};

/// In both directions, at once.
pub fn a_duplicate_sees_the_same_data(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("before", b"1")?;
    let other = store.duplicate()?;
    let third = other.duplicate()?;
    assert_eq!(other.get("before", Deadline::now())?, b"1");
    other.set("after", b"2")?;
    assert_eq!(store.get("after", Deadline::now())?, b"2");
    assert_eq!(third.list_keys()?, ["after", "before"]);
    assert!(third.delete("before")?);
    assert!(!store.check(&["before"])?);
    assert_eq!(other.patience(), store.patience());
    Ok(())
}

/// They share the data and nothing else.
pub fn a_duplicate_outlives_its_original(subject: &Subject) -> Verdict {
    let store = subject.store();
    let other = store.duplicate()?;
    store.set("key", b"v")?;
    drop(store);
    assert_eq!(other.get("key", soon())?, b"v");
    other.set("key", b"w")?;
    assert_eq!(other.duplicate()?.get("key", soon())?, b"w");
    Ok(())
}

/// Every kind of waiting call, on one handle, while others do their work on it.
pub fn a_blocked_call_does_not_stall_other_threads(subject: &Subject) -> Verdict {
    let store = subject.store();
    let get = Pending::start(&store, |store| store.get("get", Deadline::never()));
    let pop = Pending::start(&store, |store| store.pop("pop", Deadline::never()));
    let wait = Pending::start(&store, |store| store.wait(&["get", "wait"], Deadline::never()));
    let barrier = Pending::start(&store, |store| store.barrier("barrier", 0, 2, Deadline::never()));

    store.set("key", b"v")?;
    assert_eq!(store.get("key", soon())?, b"v");
    assert_eq!(store.add("count", 1)?, 1);
    assert!(!store.check(&["get"])?);
    get.assert_waiting();

    store.set("get", b"v")?;
    store.push("pop", b"v")?;
    store.set("wait", b"v")?;
    store.barrier("barrier", 1, 2, soon())?;
    assert_eq!(get.answer()?, b"v");
    assert_eq!(pop.answer()?, b"v");
    wait.answer()?;
    barrier.answer()?;
    Ok(())
}

/// However many ask at once, small answers among large ones.
pub fn answers_reach_the_thread_that_asked(subject: &Subject) -> Verdict {
    let store = subject.store();
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let store = &store;
            scope.spawn(move || asks_and_listens(&**store, thread));
        }
    });
    assert_eq!(store.num_keys()?, 16);
    Ok(())
}

/// Woken in the opposite order of their coming.
pub fn waiting_threads_of_one_handle_each_get_their_own(subject: &Subject) -> Verdict {
    let store = subject.store();
    let keys: Vec<String> = (0..16).map(|index| format!("key-{index}")).collect();
    let waiters: Vec<_> = keys
        .iter()
        .cloned()
        .map(|key| Pending::start(&store, move |store| store.get(&key, Deadline::never())))
        .collect();
    for key in keys.iter().rev() {
        store.set(key, key.as_bytes())?;
    }
    for (key, waiter) in keys.iter().zip(waiters) {
        assert_eq!(waiter.answer()?, key.as_bytes());
    }
    Ok(())
}

fn asks_and_listens(store: &dyn Store, thread: u8) {
    let (key, count) = (format!("key-{thread}"), format!("count-{thread}"));
    for round in 0..30_u8 {
        let length = if round % 3 == 0 { 40_000 } else { usize::from(round) };
        let mut value = vec![thread; length];
        value.push(round);
        store.set(&key, &value).expect("set");
        assert_eq!(store.add(&count, 1).expect("add"), i64::from(round) + 1);
        assert!(store.get(&key, soon()).expect("get") == value);
    }
}
