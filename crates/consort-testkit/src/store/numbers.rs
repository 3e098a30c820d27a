//! Numbers: values that are decimal text.

use std::thread;

use consort_store::Refusal;

use super::subject::{Subject, Verdict, refusal, soon};

/// A missing key counts as zero, and adding nothing reads.
pub fn an_add_counts_from_zero(subject: &Subject) -> Verdict {
    let store = subject.store();
    assert_eq!(store.add("count", 0)?, 0);
    assert_eq!(store.add("count", 5)?, 5);
    assert_eq!(store.add("count", -12)?, -7);
    assert_eq!(store.add("count", 0)?, -7);
    assert_eq!(store.add("other", i64::MIN)?, i64::MIN);
    Ok(())
}

/// It can be read as text and begun as text.
pub fn a_number_is_decimal_text(subject: &Subject) -> Verdict {
    let store = subject.store();
    store.add("a", -42)?;
    assert_eq!(store.get("a", soon())?, b"-42");
    store.set("b", b"9223372036854775806")?;
    assert_eq!(store.add("b", 1)?, i64::MAX);
    store.append("a", b"0")?;
    assert_eq!(store.add("a", 0)?, -420);
    Ok(())
}

/// "12abc" is not twelve. The value stays, and the handle goes on working.
pub fn an_add_to_text_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    let texts = [b"text".as_slice(), b"12abc", b"", b" 12", b"12\n", b"1.5", b"0x10", b"\xff\xfe"];
    for text in texts {
        store.set("key", text)?;
        let (key, value) = ("key".to_owned(), String::from_utf8_lossy(text).into_owned());
        assert_eq!(refusal(store.add("key", 1)), Refusal::NotANumber { key, value });
        assert_eq!(store.get("key", soon())?, text);
    }
    assert_eq!(store.add("number", 1)?, 1);
    Ok(())
}

/// In either direction. The value stays, and the handle goes on working.
pub fn an_add_beyond_64_bits_is_refused(subject: &Subject) -> Verdict {
    let store = subject.store();
    for (value, delta) in [(i64::MAX, 1), (i64::MIN, -1), (2, i64::MAX), (-2, i64::MIN)] {
        store.set("key", value.to_string().as_bytes())?;
        let expected = Refusal::Overflow { key: "key".to_owned(), value, delta };
        assert_eq!(refusal(store.add("key", delta)), expected);
        assert_eq!(store.add("key", 0)?, value);
    }
    store.set("key", b"9223372036854775808")?;
    assert!(matches!(refusal(store.add("key", 0)), Refusal::NotANumber { .. }));
    Ok(())
}

/// No two callers get the same sum, and none is left out.
pub fn adds_of_many_threads_are_each_counted_once(subject: &Subject) -> Verdict {
    let store = subject.store();
    let mut sums = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let own = store.duplicate().expect("duplicate");
                    let add = |_| own.add("count", 1).expect("add");
                    (0..50).map(add).collect::<Vec<i64>>()
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        joined.flatten().collect::<Vec<i64>>()
    });
    sums.sort_unstable();
    assert!(sums.into_iter().eq(1..=400));
    assert_eq!(store.get("count", soon())?, b"400");
    Ok(())
}
