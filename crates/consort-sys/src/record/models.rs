//! The protocol of an entry under every interleaving that loom finds.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::entry::{BEGAN, CALL, DETAIL, ENDED, Entry, NUMBER, QUEUED, WORDS, Word};
use super::entry::{accesses, agree, combined_in, end_of, site_in};
use crate::word::model::model;

impl Word for AtomicU64 {
    accesses! { fence }
}

fn entry() -> Arc<Entry<AtomicU64>> {
    Arc::new(Entry { words: std::array::from_fn(|_| AtomicU64::new(0)) })
}

/// As the system copies it: each word once, in any order. Words that a scenario is not about are left
/// out: they would only make more orders of the same.
fn copy(entry: &Entry<AtomicU64>, places: &[usize]) -> [u64; WORDS] {
    let mut copy = [0; WORDS];
    // The worst order: the number is looked at last.
    for &place in places.iter().rev() {
        copy[place] = entry.words[place].read();
    }
    copy
}

fn look(entry: &Entry<AtomicU64>, places: &[usize]) -> Option<[u64; WORDS]> {
    let first = copy(entry, places);
    AtomicU64::in_order();
    agree(&first, &copy(entry, places))
}

/// A call all of whose words follow from its number.
fn write(entry: &Entry<AtomicU64>, number: u64) {
    entry.begin(number, [number * 10, number * 100], 0, number * 1000, number as u16);
}

fn assert_whole(call: &[u64; WORDS]) {
    let number = call[NUMBER];
    let expected = [number * 10, number * 100, 0, number * 1000];
    assert_eq!([call[CALL], call[CALL + 1], call[QUEUED], call[BEGAN]], expected);
    assert_eq!(u64::from(site_in(call[DETAIL])), number);
}

#[test]
fn an_entry_that_is_written_over_is_seen_whole_or_not_at_all() {
    const PLACES: &[usize] = &[NUMBER, CALL, CALL + 1, QUEUED, BEGAN, DETAIL];
    model(|| {
        let shared = entry();
        write(&shared, 1);
        let writer = shared.clone();
        let writing = thread::spawn(move || write(&writer, 5));
        if let Some(call) = look(&shared, PLACES) {
            assert_whole(&call);
        }
        writing.join().unwrap();
        assert_eq!(look(&shared, PLACES).unwrap()[NUMBER], 5);
    });
}

#[test]
fn an_end_is_never_that_of_the_call_before() {
    const PLACES: &[usize] = &[NUMBER, BEGAN, ENDED, DETAIL];
    model(|| {
        let shared = entry();
        write(&shared, 1);
        shared.end(11, true, 111);
        let writer = shared.clone();
        let writing = thread::spawn(move || {
            write(&writer, 5);
            writer.end(55, false, 555);
        });
        if let Some(call) = look(&shared, PLACES) {
            let end = end_of(call[ENDED]).map(|end| (end, combined_in(call[DETAIL])));
            match call[NUMBER] {
                1 => assert_eq!(end, Some(((11, true), 111))),
                _ => assert!(matches!(end, None | Some(((55, false), 555))), "{end:?}"),
            }
        }
        writing.join().unwrap();
    });
}
