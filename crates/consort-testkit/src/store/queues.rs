//! Queues: first in, first out, each element to one caller.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, EntryType, Error, Refusal, Store};

use super::pending::Pending;
use super::subject::{Subject, Verdict, missing, refusal, soon};

/// Empty elements and binary ones too.
pub fn a_queue_gives_back_in_order(subject: &Subject) -> Verdict {
    let store = subject.store();
    let elements = [b"one".as_slice(), b"", b"\0\xff", b"one", b"last"];
    assert_eq!(store.queue_len("queue")?, 0);
    for (before, element) in elements.iter().enumerate() {
        store.push("queue", element)?;
        assert_eq!(store.queue_len("queue")?, before + 1);
    }
    store.push("other", b"apart")?;
    for element in elements {
        assert_eq!(store.pop("queue", soon())?, element);
    }
    assert_eq!(store.queue_len("queue")?, 0);
    assert_eq!(store.queue_len("other")?, 1);
    Ok(())
}

/// On another handle, of the right queue.
pub fn a_pop_waits_for_a_push(subject: &Subject) -> Verdict {
    let store = subject.store();
    let popper = Pending::start(&store.duplicate()?, |store| store.pop("queue", Deadline::never()));
    store.push("other", b"not this")?;
    popper.assert_waiting();
    store.push("queue", b"this")?;
    assert_eq!(popper.answer()?, b"this");
    assert_eq!(store.queue_len("queue")?, 0);
    Ok(())
}

/// It does not wait on for what cannot come.
pub fn a_pop_is_told_that_its_key_became_a_value(subject: &Subject) -> Verdict {
    let store = subject.store();
    let popper = Pending::start(&store.duplicate()?, |store| store.pop("key", Deadline::never()));
    store.set("key", b"v")?;
    let (wanted, found) = (EntryType::Queue, EntryType::Value);
    let expected = Refusal::WrongType { key: "key".to_owned(), wanted, found };
    assert_eq!(refusal(popper.answer()), expected);
    Ok(())
}

/// Nobody who waits is passed over. For stores that know who waits, not for those in which each
/// looks for itself.
pub fn waiting_pops_are_served_in_the_order_they_came(subject: &Subject) -> Verdict {
    let store = subject.store();
    for _ in 0..3 {
        let poppers: Vec<_> = (0..4)
            .map(|_| Pending::start(&store, |store| store.pop("queue", Deadline::never())))
            .collect();
        for element in 0..4 {
            store.push("queue", &[element])?;
        }
        for (element, popper) in (0..).zip(poppers) {
            assert_eq!(popper.answer()?, [element]);
        }
    }
    Ok(())
}

/// So the key can be used for something else.
pub fn an_empty_queue_has_no_key(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.push("key", b"only")?;
    assert!(store.check(&["key"])?);
    assert_eq!(store.pop("key", soon())?, b"only");
    assert!(!store.check(&["key"])?);
    missing(store.pop("key", Deadline::now()));
    assert_eq!(store.num_keys()?, 0);
    store.set("key", b"a value")?;
    Ok(())
}

/// None twice, none never.
pub fn each_element_goes_to_one_of_many_poppers(subject: &Subject) -> Verdict {
    let store = subject.store();
    let popped = push_and_pop(&*store, |popper| match popper.pop("queue", soon()) {
        Ok(element) => Some(element),
        Err(error) => panic!("{error}"),
    });
    assert_complete(&popped);
    assert_eq!(store.queue_len("queue")?, 0);
    Ok(())
}

/// An element on its way to a caller who has just given up is not lost: the next one gets it.
pub fn pops_that_give_up_lose_nothing(subject: &Subject) -> Verdict {
    let store = subject.store();
    let brief = Duration::from_micros(300);
    let popped =
        push_and_pop(&*store, |popper| match popper.pop("queue", Deadline::after(brief)) {
            Ok(element) => Some(element),
            Err(Error::Timeout { .. }) => None,
            Err(error) => panic!("{error}"),
        });
    assert_complete(&popped);
    assert_eq!(store.queue_len("queue")?, 0);
    Ok(())
}

/// Pushes [`ELEMENTS`] different elements from several threads while several others take them,
/// until one takes the end mark meant for it.
fn push_and_pop(
    store: &dyn Store,
    pop: impl Fn(&dyn Store) -> Option<Vec<u8>> + Sync,
) -> Vec<Vec<u8>> {
    let popped = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..POPPERS {
            scope.spawn(|| {
                let own = store.duplicate().expect("duplicate");
                loop {
                    match pop(&*own) {
                        Some(end) if end == END => break,
                        Some(element) => {
                            popped.lock().unwrap_or_else(PoisonError::into_inner).push(element);
                        }
                        None => {}
                    }
                }
            });
        }
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                scope.spawn(move || {
                    let own = store.duplicate().expect("duplicate");
                    for element in (pusher..ELEMENTS).step_by(PUSHERS) {
                        own.push("queue", element.to_string().as_bytes()).expect("push");
                    }
                })
            })
            .collect();
        for pusher in pushers {
            pusher.join().expect("no panic");
        }
        for _ in 0..POPPERS {
            store.push("queue", END).expect("push");
        }
    });
    popped.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn assert_complete(popped: &[Vec<u8>]) {
    let different: BTreeSet<&[u8]> = popped.iter().map(Vec::as_slice).collect();
    assert_eq!(popped.len(), ELEMENTS, "lost, or given out twice");
    assert_eq!(different.len(), ELEMENTS, "given out twice");
}

const PUSHERS: usize = 3;
const POPPERS: usize = 3;
const ELEMENTS: usize = 150;
const END: &[u8] = b"end";
