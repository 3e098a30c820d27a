//! A store in a file, through two handles in turn, answers as a store in memory does.

use consort_store::{Deadline, Error, FileStore, MemStore, Pair, Reply, Request, Result, Store};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_requests_are_answered_as_in_memory(
        story in proptest::collection::vec((any_request(), 0..2_usize), 1..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let memory = MemStore::new();
        let files = [FileStore::open(&path).unwrap(), FileStore::open(&path).unwrap()];
        for (asked, through) in &story {
            let request = asked.request();
            let expected = words(memory.call(&request, Deadline::now()));
            let answer = words(files[*through].call(&request, Deadline::now()));
            prop_assert_eq!(answer, expected, "{:?}", request);
        }
        let newcomer = FileStore::open(&path).unwrap();
        prop_assert_eq!(newcomer.list_keys().unwrap(), memory.list_keys().unwrap());
        for key in memory.list_keys().unwrap() {
            for request in [Request::Get { key: &key }, Request::Pop { key: &key }] {
                let expected = words(memory.call(&request, Deadline::now()));
                prop_assert_eq!(words(newcomer.call(&request, Deadline::now())), expected);
            }
        }
    }
}

/// An answer without the time it took.
fn words(answer: Result<Reply>) -> String {
    match answer {
        Err(Error::Timeout { verb, missing, .. }) => format!("{verb}: {missing}"),
        other => format!("{other:?}"),
    }
}

/// What a request is made of.
#[derive(Clone, Debug)]
struct Asked {
    verb: u8,
    key: &'static str,
    other: &'static str,
    value: Vec<u8>,
    number: i64,
    rank: u32,
}

fn any_request() -> impl Strategy<Value = Asked> {
    let key = || proptest::sample::select(vec!["a", "b", "c", ""]);
    let value = prop_oneof![
        Just(b"12".to_vec()),
        Just(b"007".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let number = prop_oneof![Just(0), Just(i64::MAX), -100..100_i64];
    (0..17_u8, key(), key(), value, number, 0..3_u32).prop_map(
        |(verb, key, other, value, number, rank)| Asked { verb, key, other, value, number, rank },
    )
}

impl Asked {
    fn request(&self) -> Request<'_> {
        let Self { key, other, rank, .. } = *self;
        let value = &self.value;
        let generation = self.number.unsigned_abs() % 2;
        match self.verb {
            0 => Request::Set { key, value },
            1 => Request::Get { key },
            2 => Request::MultiGet { keys: vec![key, other] },
            3 => Request::MultiSet {
                pairs: vec![Pair { key, value }, Pair { key: other, value: b"" }],
            },
            4 => Request::Add { key, delta: self.number },
            5 => Request::CompareSet { key, expect: None, new: value },
            6 => Request::CompareSet { key, expect: Some(b"12"), new: value },
            7 => Request::Append { key, value },
            8 => Request::Wait { keys: vec![key, other] },
            9 => Request::Delete { key },
            10 => Request::Count { prefix: other },
            11 => Request::List { prefix: other },
            12 => Request::Push { key, value },
            13 => Request::Pop { key },
            14 => Request::QueueLen { key },
            15 => Request::Arrive { key, rank, world: 2 },
            _ => match self.value.len() % 2 {
                0 => Request::Pass { key, generation },
                _ => Request::Withdraw { key, rank, generation },
            },
        }
    }
}
