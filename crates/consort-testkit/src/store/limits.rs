//! Limits: what just fits works, what does not is refused, and the handle goes on working.

use consort_store::{Deadline, Limits, Refusal, Result, Store, Swap};

use super::subject::{Subject, Verdict, refusal, soon};

/// Alone or among others.
pub fn an_empty_key_is_refused_by_every_verb(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("k", b"v")?;
    refused_for_its_key(&*store, "", |refused| assert_eq!(refused, Refusal::EmptyKey));
    assert_eq!(store.list_keys()?, ["k"]);
    assert_eq!(store.get("k", soon())?, b"v");
    Ok(())
}

/// Measured in bytes, not in characters.
pub fn the_longest_key_works_and_a_longer_one_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    let odd = subject.longest_key % 2;
    let longest = "é".repeat(subject.longest_key / 2) + &"e"[..odd];
    store.set(&longest, b"v")?;
    assert_eq!(store.get(&longest, soon())?, b"v");
    assert_eq!(store.list_keys()?, [longest.as_str()]);

    let longer = longest + "x";
    refused_for_its_key(&*store, &longer, |refused| {
        let Refusal::KeyTooLong { length, limit, start } = &refused else { panic!("{refused:?}") };
        assert_eq!((*length, *limit), (longer.len(), subject.longest_key));
        assert!(!start.is_empty() && longer.starts_with(start.as_str()), "{start:?}");
    });
    assert_eq!(store.num_keys()?, 1);
    store.set("k", b"w")?;
    assert_eq!(store.get("k", soon())?, b"w");
    Ok(())
}

/// By every verb that brings one.
pub fn the_largest_value_works_and_a_larger_one_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    let larger = pattern(Limits::STANDARD.value + 1);
    let largest = &larger[1..];
    store.set("set", largest)?;
    assert!(store.get("set", soon())? == largest);
    store.push("queue", largest)?;
    assert!(store.pop("queue", soon())? == largest);
    assert_eq!(store.compare_set("swap", None, largest)?, Swap::Swapped);
    assert_eq!(store.compare_set("swap", Some(largest), b"small")?, Swap::Swapped);

    assert_eq!(refusal(store.set("k", &larger)), too_large("k"));
    assert_eq!(refusal(store.append("k", &larger)), too_large("k"));
    assert_eq!(refusal(store.push("k", &larger)), too_large("k"));
    assert_eq!(refusal(store.compare_set("k", None, &larger)), too_large("k"));
    assert_eq!(refusal(store.multi_set(&[("j", b""), ("k", &larger)])), too_large("k"));
    assert_eq!(store.list_keys()?, ["set", "swap"]);
    assert_eq!(store.get("swap", soon())?, b"small");
    Ok(())
}

/// To the last byte.
pub fn an_append_may_fill_a_value_but_not_overfill_it(subject: &Subject) -> Verdict {
    let store = subject.store();
    let whole = pattern(Limits::STANDARD.value);
    let (first, last) = whole.split_at(whole.len() - 1);
    store.append("k", first)?;
    store.append("k", last)?;
    assert_eq!(refusal(store.append("k", b"x")), too_large("k"));
    assert!(store.get("k", soon())? == whole);
    store.append("k", b"")?;
    store.append("other", b"x")?;
    Ok(())
}

/// Each value fits; together they do not, neither in a request nor in a reply.
pub fn a_reply_over_the_message_limit_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    let value = vec![7; Limits::STANDARD.value];
    let count = Limits::STANDARD.message / value.len() + 1;
    let names: Vec<String> = (0..count).map(|index| index.to_string()).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let pairs: Vec<(&str, &[u8])> = keys.iter().map(|key| (*key, value.as_slice())).collect();
    assert_message(refusal(store.multi_set(&pairs)));
    assert_eq!(store.num_keys()?, 0);
    for key in &keys {
        store.set(key, &value)?;
    }
    assert_message(refusal(store.multi_get(&keys, soon())));
    assert_eq!(store.multi_get(&keys[..2], soon())?.len(), 2);
    Ok(())
}

fn refused_for_its_key(store: &dyn Store, key: &str, check: impl Fn(Refusal)) {
    let refused = |result: Result<()>| check(refusal(result));
    refused(store.set(key, b"v"));
    refused(store.get(key, Deadline::now()).map(drop));
    refused(store.get_changed(key, b"v", Deadline::now()).map(drop));
    refused(store.add(key, 1).map(drop));
    refused(store.compare_set(key, None, b"v").map(drop));
    refused(store.wait(&["k", key], Deadline::now()));
    refused(store.check(&[key]).map(drop));
    refused(store.delete(key).map(drop));
    refused(store.append(key, b"v"));
    refused(store.multi_get(&["k", key], Deadline::now()).map(drop));
    refused(store.multi_set(&[("k", b"other"), (key, b"v")]));
    refused(store.push(key, b"v"));
    refused(store.pop(key, Deadline::now()).map(drop));
    refused(store.queue_len(key).map(drop));
    refused(store.barrier(key, 0, 1, soon()));
}

fn too_large(key: &str) -> Refusal {
    let limit = Limits::STANDARD.value;
    Refusal::ValueTooLarge { key: key.to_owned(), length: limit + 1, limit }
}

#[track_caller]
fn assert_message(refused: Refusal) {
    let Refusal::MessageTooLarge { length, limit } = refused else { panic!("{refused:?}") };
    assert_eq!(limit, Limits::STANDARD.message);
    assert!(length > limit);
}

/// Bytes in which a lost or moved piece shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
}
