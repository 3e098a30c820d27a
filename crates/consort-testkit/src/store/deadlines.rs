//! Deadlines: when a call gives up, and what it says then.

use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error, Missing, Result};

use super::pending::Pending;
use super::subject::{PATIENCE, SHORT, Subject, Verdict, missing, shortly, soon};

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
        let impatient = thread::spawn(move || {
            let limit = Duration::from_micros(u64::from(round) * 50);
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
    if took < SHORT || took > SHORT * 50 || waited > took || waited < SHORT / 2 {
        return Err(format!("{expected} should wait {SHORT:?}, took {took:?}, says {waited:?}"));
    }
    Ok(())
}

fn names(names: &[&str]) -> Missing {
    Missing::collect(names.iter())
}
