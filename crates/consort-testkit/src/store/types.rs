//! Types: one name space, in which a key holds a value, a queue or a barrier.

use consort_store::{Deadline, EntryType, Refusal, Result, Store};

use super::subject::{Subject, Verdict, refusal, soon};

/// Verbs for queues and barriers are refused, and the value stays.
pub fn a_value_is_neither_queue_nor_barrier(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("key", b"7")?;
    queue_verbs_are_refused(&*store, EntryType::Value);
    barrier_is_refused(&*store, EntryType::Value);
    assert_eq!(store.get("key", soon())?, b"7");
    assert_eq!(store.num_keys()?, 1);
    Ok(())
}

/// Verbs for values and barriers are refused, and the queue keeps its elements.
pub fn a_queue_is_neither_value_nor_barrier(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.push("key", b"1")?;
    store.push("key", b"2")?;
    value_verbs_are_refused(&*store, EntryType::Queue)?;
    barrier_is_refused(&*store, EntryType::Queue);
    assert_eq!(store.queue_len("key")?, 2);
    assert_eq!(store.pop("key", soon())?, b"1");
    assert!(store.check(&["key"])?);
    Ok(())
}

/// Verbs for values and queues are refused, and the barrier works on.
pub fn a_barrier_is_neither_value_nor_queue(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.barrier("key", 0, 1, soon())?;
    value_verbs_are_refused(&*store, EntryType::Barrier)?;
    queue_verbs_are_refused(&*store, EntryType::Barrier);
    store.barrier("key", 0, 1, soon())?;
    assert!(store.check(&["key"])?);
    Ok(())
}

fn value_verbs_are_refused(store: &dyn Store, found: EntryType) -> Result<()> {
    store.set("value", b"v")?;
    let refused = |result| assert_wrong(result, EntryType::Value, found);
    refused(store.set("key", b"v"));
    refused(store.get("key", soon()).map(drop));
    refused(store.get_changed("key", b"v", soon()).map(drop));
    refused(store.add("key", 1).map(drop));
    refused(store.append("key", b"v"));
    refused(store.compare_set("key", None, b"v").map(drop));
    refused(store.compare_set("key", Some(b"1"), b"v").map(drop));
    refused(store.multi_get(&["value", "key"], soon()).map(drop));
    refused(store.multi_set(&[("value", b"v"), ("key", b"v")]));
    store.delete("value").map(drop)
}

fn queue_verbs_are_refused(store: &dyn Store, found: EntryType) {
    let refused = |result| assert_wrong(result, EntryType::Queue, found);
    refused(store.push("key", b"v"));
    refused(store.pop("key", soon()).map(drop));
    refused(store.pop("key", Deadline::now()).map(drop));
    refused(store.queue_len("key").map(drop));
}

fn barrier_is_refused(store: &dyn Store, found: EntryType) {
    assert_wrong(store.barrier("key", 0, 1, soon()), EntryType::Barrier, found);
}

#[track_caller]
fn assert_wrong(result: Result<()>, wanted: EntryType, found: EntryType) {
    let expected = Refusal::WrongType { key: "key".to_owned(), wanted, found };
    assert_eq!(refusal(result), expected);
}
