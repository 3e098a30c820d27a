//! Waiting: who is woken, and by what.

use consort_store::{Deadline, EntryType, Missing, Refusal, Result, Store, Swap};

use super::pending::Pending;
use super::subject::{Subject, Verdict, missing, refusal, shortly, soon};

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
    let call = |store: &dyn Store| store.multi_get(&["a", "b", "c"], Deadline::never());
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
    let call = |store: &dyn Store| store.get_changed("key", b"known", Deadline::never());
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
    assert_eq!(missing(unchanged), Missing::collect(["a change of \"key\""].iter()));
    Ok(())
}

/// Existence is all that counts, so queues and barriers do too.
pub fn a_wait_is_woken_by_every_verb_that_creates(subject: &Subject) -> Verdict {
    let store = subject.store();
    let keys = ["set", "multi_set", "add", "append", "compare_set", "push", "barrier"];
    let waiter =
        Pending::start(&store.duplicate()?, move |store| store.wait(&keys, Deadline::never()));
    let singles = keys.map(|key| {
        let own = store.duplicate().expect("duplicate");
        Pending::start(&own, move |store| store.wait(&[key], Deadline::never()))
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
    let waiter =
        Pending::start(&store.duplicate()?, |store| store.wait(&["a", "b"], Deadline::never()));
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
            Pending::start(handle, |store| store.get("key", Deadline::never()))
        })
        .collect();
    store.set("key", b"v")?;
    for waiter in waiters {
        assert_eq!(waiter.answer()?, b"v");
    }
    Ok(())
}

/// Begins a get of `key` on another handle, sees it wait, writes, and expects the value.
fn get_is_woken(
    subject: &Subject,
    expected: &[u8],
    write: impl FnOnce(&dyn Store) -> Result<()>,
) -> Verdict {
    let store = subject.store();
    let waiter = Pending::start(&store.duplicate()?, |store| store.get("key", Deadline::never()));
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
    let waiter = Pending::start(&store.duplicate()?, |store| store.get("key", Deadline::never()));
    write(&*store)?;
    let wanted = EntryType::Value;
    let expected = Refusal::WrongType { key: "key".to_owned(), wanted, found };
    assert_eq!(refusal(waiter.answer()), expected);
    Ok(())
}
