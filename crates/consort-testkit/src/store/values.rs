//! Values: set, get, delete, append, compare and swap, several at once.

use std::collections::BTreeMap;
use std::thread;

use consort_store::{Deadline, Refusal, Swap};

use super::subject::{Subject, Verdict, missing, refusal, soon};

/// Text, nothing at all, and every byte there is.
pub fn a_value_that_was_set_is_read_back(subject: &Subject) -> Verdict {
    let store = subject.store();
    let every_byte: Vec<u8> = (0..=255).collect();
    for (key, value) in [("text", b"hello".as_slice()), ("empty", b""), ("bytes", &every_byte)] {
        store.set(key, value)?;
        assert_eq!(store.get(key, soon())?, value, "{key}");
    }
    Ok(())
}

/// The last set counts, shorter or longer than the one before.
pub fn a_set_replaces(subject: &Subject) -> Verdict {
    let store = subject.store();
    for value in [b"first".as_slice(), b"the second", b"", b"3"] {
        store.set("key", value)?;
        assert_eq!(store.get("key", soon())?, value);
    }
    assert_eq!(store.num_keys()?, 1);
    Ok(())
}

/// Spaces, slashes, quotes, line breaks, zeroes and any script.
pub fn keys_are_any_text(subject: &Subject) -> Verdict {
    let store = subject.store();
    let keys =
        [" ", "/", "a/b//c", "..", "a\nb", "a\0b", "\"'\\", "ключ", "鍵 🔑", "prefix", "prefix/"];
    for key in keys {
        store.set(key, key.as_bytes())?;
    }
    for key in keys {
        assert_eq!(store.get(key, soon())?, key.as_bytes(), "{key:?}");
    }
    let mut sorted = keys.map(str::to_owned);
    sorted.sort_unstable();
    assert_eq!(store.list_keys()?, sorted);
    Ok(())
}

/// Values, queues and barriers alike; and says whether there was something to delete.
pub fn deleted_keys_are_gone(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("value", b"v")?;
    store.push("queue", b"q")?;
    store.barrier("barrier", 0, 1, soon())?;
    for key in ["value", "queue", "barrier"] {
        assert!(store.delete(key)?, "{key}");
        assert!(!store.delete(key)?, "{key}");
        assert!(!store.check(&[key])?, "{key}");
    }
    assert_eq!(store.num_keys()?, 0);
    missing(store.get("value", Deadline::now()));
    store.set("value", b"again")?;
    assert_eq!(store.get("value", soon())?, b"again");
    Ok(())
}

/// Whatever they hold, and no others.
pub fn keys_are_counted_and_listed_in_order(subject: &Subject) -> Verdict {
    let store = subject.store();
    assert_eq!((store.num_keys()?, store.list_keys()?), (0, Vec::new()));
    store.set("b", b"")?;
    store.push("c", b"")?;
    store.barrier("a", 0, 1, soon())?;
    store.add("b2", 1)?;
    missing(store.get("never", Deadline::now()));
    missing(store.pop("nor this", Deadline::now()));
    assert_eq!(store.num_keys()?, 4);
    assert_eq!(store.list_keys()?, ["a", "b", "b2", "c"]);
    store.delete("b")?;
    assert_eq!(store.list_keys()?, ["a", "b2", "c"]);
    Ok(())
}

/// A missing key counts as empty, and an empty append creates it.
pub fn an_append_creates_and_extends(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.append("key", b"")?;
    assert_eq!(store.get("key", soon())?, b"");
    store.append("key", b"one ")?;
    store.append("key", b"")?;
    store.append("key", b"two")?;
    assert_eq!(store.get("key", soon())?, b"one two");
    store.set("key", b"3")?;
    store.append("key", b"4")?;
    assert_eq!(store.get("key", soon())?, b"34");
    Ok(())
}

/// Nothing lost, nothing torn, and each thread's pieces in its own order.
pub fn appends_of_many_threads_are_all_there(subject: &Subject) -> Verdict {
    let store = subject.store();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    store.append("log", &[thread, round, !thread, !round]).expect("append");
                }
            });
        }
    });
    let log = store.get("log", soon())?;
    assert_eq!(log.len(), usize::from(THREADS) * usize::from(ROUNDS) * 4);
    let mut next = BTreeMap::new();
    for record in log.chunks(4) {
        let round: &mut u8 = next.entry(record[0]).or_default();
        assert_eq!(record, [record[0], *round, !record[0], !*round]);
        *round += 1;
    }
    Ok(())
}

/// All of: missing and expected so, missing but not expected so, as expected, different, there
/// though expected missing.
pub fn compare_set_swaps_only_what_is_expected(subject: &Subject) -> Verdict {
    let store = subject.store();
    assert_eq!(store.compare_set("key", Some(b"old"), b"new")?, Swap::Missing);
    assert!(!store.check(&["key"])?);
    assert_eq!(store.compare_set("key", None, b"first")?, Swap::Swapped);
    assert_eq!(store.compare_set("key", None, b"new")?, Swap::Differs(b"first".to_vec()));
    assert_eq!(store.compare_set("key", Some(b"old"), b"new")?, Swap::Differs(b"first".to_vec()));
    assert_eq!(store.get("key", soon())?, b"first");
    assert_eq!(store.compare_set("key", Some(b"first"), b"second")?, Swap::Swapped);
    assert_eq!(store.get("key", soon())?, b"second");
    Ok(())
}

/// An empty value is a value.
pub fn compare_set_tells_missing_from_empty(subject: &Subject) -> Verdict {
    let store = subject.store();
    assert_eq!(store.compare_set("key", Some(b""), b"new")?, Swap::Missing);
    assert_eq!(store.compare_set("key", None, b"")?, Swap::Swapped);
    assert_eq!(store.compare_set("key", None, b"new")?, Swap::Differs(Vec::new()));
    assert_eq!(store.compare_set("key", Some(b""), b"new")?, Swap::Swapped);
    Ok(())
}

/// A counter kept by compare and swap loses no increment.
pub fn contended_compare_sets_lose_no_update(subject: &Subject) -> Verdict {
    let store = subject.store();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut seen = None::<u8>;
                for _ in 0..20 {
                    loop {
                        let expect = seen.map(|count| [count]);
                        let new = [seen.unwrap_or(0) + 1];
                        let expect = expect.as_ref().map(<[u8; 1]>::as_slice);
                        match store.compare_set("counter", expect, &new).expect("compare_set") {
                            Swap::Swapped => break seen = Some(new[0]),
                            Swap::Differs(now) => seen = Some(now[0]),
                            Swap::Missing => panic!("a counter does not vanish"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.get("counter", soon())?, [THREADS * 20]);
    Ok(())
}

/// A key asked for twice is answered twice.
pub fn multi_get_answers_in_the_order_asked(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("a", b"1")?;
    store.set("b", b"")?;
    store.set("c", b"3")?;
    let values = store.multi_get(&["c", "a", "b", "a"], soon())?;
    assert_eq!(values, [b"3".as_slice(), b"1", b"", b"1"]);
    assert!(store.multi_get(&[], Deadline::now())?.is_empty());
    Ok(())
}

/// Of two values for one key the later counts; no pairs are no change.
pub fn multi_set_creates_and_replaces(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("a", b"old")?;
    store.multi_set(&[])?;
    store.multi_set(&[("a", b"1"), ("b", b""), ("c", b"2"), ("c", b"3")])?;
    assert_eq!(store.list_keys()?, ["a", "b", "c"]);
    assert_eq!(store.multi_get(&["a", "b", "c"], soon())?, [b"1".as_slice(), b"", b"3"]);
    Ok(())
}

/// Neither the pairs before the wrong one nor those after it.
pub fn a_refused_multi_set_changes_nothing(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.set("a", b"old")?;
    store.push("queue", b"element")?;
    let pairs: [(&str, &[u8]); 3] = [("a", b"new"), ("queue", b"new"), ("b", b"new")];
    let refused = refusal(store.multi_set(&pairs));
    assert!(matches!(&refused, Refusal::WrongType { key, .. } if key == "queue"), "{refused:?}");
    let refused = refusal(store.multi_set(&[("a", b"new"), ("", b"new"), ("b", b"new")]));
    assert_eq!(refused, Refusal::EmptyKey);
    assert_eq!(store.list_keys()?, ["a", "queue"]);
    assert_eq!(store.get("a", soon())?, b"old");
    assert_eq!(store.pop("queue", soon())?, b"element");
    Ok(())
}

/// Several values read at one moment were all written at one moment.
pub fn readers_never_see_half_a_multi_set(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.multi_set(&[("x", b"0"), ("y", b"0"), ("z", b"0")])?;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = store.duplicate().expect("duplicate");
                loop {
                    let seen = reader.multi_get(&["z", "x", "y"], soon()).expect("multi_get");
                    assert!(seen[0] == seen[1] && seen[1] == seen[2], "half of two: {seen:?}");
                    if seen[0] == b"end" {
                        break;
                    }
                }
            });
        }
        for round in 1..=300 {
            let value = if round == 300 { "end".to_owned() } else { round.to_string() };
            let value = value.as_bytes();
            store.multi_set(&[("x", value), ("y", value), ("z", value)]).expect("multi_set");
        }
    });
    Ok(())
}

const THREADS: u8 = 6;
const ROUNDS: u8 = 40;
