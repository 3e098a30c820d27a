//! Waiting: who is woken, by what, and when a call gives up.

use std::time::Instant;

use consort_store::{Deadline, EntryType, Error, Missing, Refusal, Result, Store, Swap};

use super::pending::Pending;
use super::subject::{PATIENCE, SHORT, Subject, Verdict, missing, refusal, shortly, soon};

/// The obvious one.
pub fn a_get_is_woken_by_set(subject: &Subject) -> Verdict {
    get_is_woken(subject, b"v", |store| store.set("key", b"v"))
}

/// As one key of several.
pub fn a_get_is_woken_by_multi_set(subject: &Subject) -> Verdict {
    get_is_woken(subject, b"v", |store| store.multi_set(&[("a", b"1"), ("key", b"v")]))
}

/// Also by adding nothing.
pub fn a_get_is_woken_by_add(subject: &Subject) -> Verdict {
    get_is_woken(subject, b"0", |store| store.add("key", 0).map(drop))
}

/// Which creates what it extends.
pub fn a_get_is_woken_by_append(subject: &Subject) -> Verdict {
    get_is_woken(subject, b"v", |store| store.append("key", b"v"))
}

/// By the one that swaps, not by the one that does not.
pub fn a_get_is_woken_by_compare_set(subject: &Subject) -> Verdict {
    get_is_woken(subject, b"v", |store| {
        assert_eq!(store.compare_set("key", Some(b"other"), b"wrong")?, Swap::Missing);
        store.compare_set("key", None, b"v").map(drop)
    })
}

/// It does not wait on for what cannot come.
pub fn a_get_is_told_that_its_key_became_a_queue(subject: &Subject) -> Verdict {
    get_is_refused(subject, EntryType::Queue, |store| store.push("key", b"v"))
}

/// It does not wait on for what cannot come.
pub fn a_get_is_told_that_its_key_became_a_barrier(subject: &Subject) -> Verdict {
    get_is_refused(subject, EntryType::Barrier, |store| store.barrier("key", 0, 1, soon()))
}

/// And then reads all of them.
pub fn a_multi_get_waits_for_its_last_key(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("b", b"2")?;
    let call = |store: &dyn Store| store.multi_get(&["a", "b", "c"], soon());
    let reader = Pending::start(&store.duplicate()?, call);
    store.set("a", b"1")?;
    reader.assert_waiting();
    store.set("b", b"two")?;
    store.set("c", b"3")?;
    assert_eq!(reader.answer()?, [b"1".as_slice(), b"two", b"3"]);
    Ok(())
}

/// A missing key is waited for as well; a key written with what is known is not.
pub fn a_get_of_a_change_waits_for_another_value(subject: &Subject) -> Verdict {
    let store = subject.store();
    let call = |store: &dyn Store| store.get_changed("key", b"known", soon());
    let watcher = Pending::start(&store.duplicate()?, call);
    store.set("key", b"known")?;
    watcher.assert_waiting();
    store.delete("key")?;
    store.set("key", b"known")?;
    watcher.assert_waiting();
    store.append("key", b" no more")?;
    assert_eq!(watcher.answer()?, b"known no more");
    assert_eq!(store.get_changed("key", b"known", Deadline::now())?, b"known no more");
    let unchanged = store.get_changed("key", b"known no more", shortly());
    assert_eq!(missing(unchanged), names(&["a change of \"key\""]));
    Ok(())
}

/// Existence is all that counts, so queues and barriers do too.
pub fn a_wait_is_woken_by_every_verb_that_creates(subject: &Subject) -> Verdict {
    let store = subject.store();
    let keys = ["set", "multi_set", "add", "append", "compare_set", "push", "barrier"];
    let waiter = Pending::start(&store.duplicate()?, move |store| store.wait(&keys, soon()));
    let singles = keys.map(|key| {
        let own = store.duplicate().expect("duplicate");
        Pending::start(&own, move |store| store.wait(&[key], soon()))
    });
    store.set("set", b"")?;
    store.multi_set(&[("multi_set", b"")])?;
    store.add("add", 1)?;
    store.append("append", b"")?;
    let _ = store.compare_set("compare_set", None, b"")?;
    store.push("push", b"")?;
    waiter.assert_waiting();
    store.barrier("barrier", 0, 1, soon())?;
    waiter.answer()?;
    for single in singles {
        single.answer()?;
    }
    Ok(())
}

/// A key that was there and has gone again does not count.
pub fn a_wait_needs_all_keys_at_one_moment(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store.duplicate()?, |store| store.wait(&["a", "b"], soon()));
    store.set("a", b"")?;
    store.delete("a")?;
    store.set("b", b"")?;
    waiter.assert_waiting();
    store.set("a", b"")?;
    waiter.answer()?;
    Ok(())
}

/// At once, and whatever the deadline.
pub fn an_empty_wait_is_satisfied(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.wait(&[], Deadline::now())?;
    store.wait(&[], soon())?;
    assert!(store.check(&[])?);
    Ok(())
}

/// However many there are, on however many handles.
pub fn one_set_wakes_every_waiter(subject: &Subject) -> Verdict {
    let store = subject.store();
    let other = store.duplicate()?;
    let waiters: Vec<_> = (0..12)
        .map(|index| {
            let handle = if index % 2 == 0 { &store } else { &other };
            Pending::start(handle, |store| store.get("key", soon()))
        })
        .collect();
    store.set("key", b"v")?;
    for waiter in waiters {
        assert_eq!(waiter.answer()?, b"v");
    }
    Ok(())
}

/// It finds what is there, and does not wait for what is not.
pub fn a_passed_deadline_looks_once(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("value", b"v")?;
    store.push("queue", b"q")?;
    assert_eq!(store.get("value", Deadline::now())?, b"v");
    assert_eq!(store.multi_get(&["value", "value"], Deadline::now())?, [b"v", b"v"]);
    store.wait(&["value", "queue"], Deadline::now())?;
    assert_eq!(store.pop("queue", Deadline::now())?, b"q");

    let started = Instant::now();
    let long_ago = Deadline::at(started);
    assert_eq!(missing(store.get("no", Deadline::now())), names(&["\"no\""]));
    assert_eq!(missing(store.get("no", long_ago)), names(&["\"no\""]));
    assert_eq!(missing(store.multi_get(&["value", "no"], long_ago)), names(&["\"no\""]));
    assert_eq!(missing(store.wait(&["no", "value"], long_ago)), names(&["\"no\""]));
    assert_eq!(missing(store.pop("queue", long_ago)), names(&["\"queue\""]));
    assert!(started.elapsed() < PATIENCE, "that was not at once");
    Ok(())
}

/// Not before the deadline, not long after it; and the error says which verb, how long and what.
pub fn a_deadline_is_kept_and_names_what_was_missing(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("there", b"")?;
    store.push("queue", b"")?;
    let waits = [
        gives_up("get", &["\"a\""], || store.get("a", shortly()).map(drop)),
        gives_up("multi_get", &["\"b\""], || store.multi_get(&["there", "b"], shortly()).map(drop)),
        gives_up("wait", &["\"c\"", "\"d\""], || {
            store.wait(&["c", "queue", "d", "there"], shortly())
        }),
        gives_up("pop", &["\"e\""], || store.pop("e", shortly()).map(drop)),
    ];
    for wait in waits {
        assert_eq!(wait, Ok(()));
    }
    Ok(())
}

/// An error with a thousand names helps nobody.
pub fn many_missing_keys_are_counted_and_some_named(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("key-0", b"")?;
    let keys: Vec<String> = (0..1000).map(|index| format!("key-{index}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let missing = missing(store.wait(&keys, Deadline::now()));
    assert_eq!(missing.count, 999);
    assert_eq!(missing.names.len(), Missing::NAMED);
    assert_eq!(missing.names[0], "\"key-1\"");
    Ok(())
}

/// It has to be let go by a set in the end.
pub fn without_a_deadline_a_get_waits_on(subject: &Subject) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store, |store| store.get("key", Deadline::never()));
    waiter.assert_waiting();
    waiter.assert_waiting();
    store.set("key", b"at last")?;
    assert_eq!(waiter.answer()?, b"at last");
    Ok(())
}

/// True only if all exist; whatever they hold.
pub fn check_looks_without_waiting(subject: &Subject) -> Verdict {
    let store = subject.store();
    let started = Instant::now();
    assert!(!store.check(&["value"])?);
    store.set("value", b"")?;
    store.push("queue", b"")?;
    assert!(store.check(&["value"])?);
    assert!(store.check(&["value", "queue", "value"])?);
    assert!(!store.check(&["value", "none", "queue"])?);
    assert!(started.elapsed() < PATIENCE, "that was not at once");
    Ok(())
}

/// An answer that comes when the caller has just gone must not reach the next caller.
pub fn a_call_that_gave_up_disturbs_no_later_one(subject: &Subject) -> Verdict {
    let store = subject.store();
    for round in 0..60_u32 {
        let key = format!("key-{round}");
        let (waiter, late) = (store.clone(), key.clone());
        let impatient = std::thread::spawn(move || {
            let limit = std::time::Duration::from_micros(u64::from(round) * 50);
            waiter.get(&late, Deadline::after(limit))
        });
        store.set(&key, key.as_bytes())?;
        match impatient.join().expect("no panic") {
            Ok(value) => assert_eq!(value, key.as_bytes()),
            Err(Error::Timeout { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        assert_eq!(store.get(&key, soon())?, key.as_bytes());
    }
    assert_eq!(store.num_keys()?, 60);
    Ok(())
}

/// Begins a get of `key` on another handle, sees it wait, writes, and expects the value.
fn get_is_woken(
    subject: &Subject,
    expected: &[u8],
    write: impl FnOnce(&dyn Store) -> Result<()>,
) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store.duplicate()?, |store| store.get("key", soon()));
    store.set("another", b"")?;
    waiter.assert_waiting();
    write(&*store)?;
    assert_eq!(waiter.answer()?, expected);
    Ok(())
}

fn get_is_refused(
    subject: &Subject,
    found: EntryType,
    write: impl FnOnce(&dyn Store) -> Result<()>,
) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store.duplicate()?, |store| store.get("key", soon()));
    write(&*store)?;
    let wanted = EntryType::Value;
    let expected = Refusal::WrongType { key: "key".to_owned(), wanted, found };
    assert_eq!(refusal(waiter.answer()), expected);
    Ok(())
}

/// Runs a call that has [`shortly`] to wait, and says what is wrong with how it gives up.
fn gives_up(
    expected: &str,
    expected_names: &[&str],
    call: impl FnOnce() -> Result<()>,
) -> Result<(), String> {
    let started = Instant::now();
    let result = call();
    let took = started.elapsed();
    let Err(Error::Timeout { verb, waited, missing }) = result else {
        return Err(format!("{expected} did not give up: {result:?}"));
    };
    let told = (verb, &missing);
    if told != (expected, &names(expected_names)) {
        return Err(format!("{expected} gave up with the wrong words: {told:?}"));
    }
    if took < SHORT || took > PATIENCE || waited > took || waited < SHORT / 2 {
        return Err(format!("{expected} should wait {SHORT:?}, took {took:?}, says {waited:?}"));
    }
    Ok(())
}

fn names(names: &[&str]) -> Missing {
    Missing::collect(names.iter())
}
