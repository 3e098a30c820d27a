//! Random sequences of requests, answered by a store and by the model alike.

use consort_store::{Deadline, Error, Pair, Refusal, Reply, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::model::Model;
use super::subject::{Subject, Verdict};

/// From two handles in turn, and never waiting.
pub fn any_sequence_of_requests_is_answered_like_the_model(subject: &Subject) -> Verdict {
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(step(), 1..80), |steps| {
        let store = subject.store();
        let handles = [store.duplicate().map_err(in_words)?, store];
        let mut model = Model::new();
        for (index, step) in steps.iter().enumerate() {
            let request = step.request(&model);
            let found = match handles[index % 2].call(&request, Deadline::now()) {
                Ok(reply) => reply,
                Err(Error::Refused(refusal)) => Reply::Refused(refusal),
                Err(Error::Timeout { missing, .. }) => Reply::Missing(missing),
                Err(other) => return Err(in_words(other)),
            };
            let expected = model.answer(&request);
            prop_assert_eq!(without_words(found), expected, "step {}: {:?}", index, request);
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    Ok(())
}

/// A request that owns what it names.
#[derive(Clone, Debug)]
enum Step {
    Set(&'static str, Vec<u8>),
    Get(&'static str),
    GetChanged(&'static str, Vec<u8>),
    MultiGet(Vec<&'static str>),
    MultiSet(Vec<(&'static str, Vec<u8>)>),
    Add(&'static str, i64),
    CompareSet(&'static str, Option<Vec<u8>>, Vec<u8>),
    Append(&'static str, Vec<u8>),
    Wait(Vec<&'static str>),
    Delete(&'static str),
    Count(&'static str),
    List(&'static str),
    Push(&'static str, Vec<u8>),
    Pop(&'static str),
    QueueLen(&'static str),
    Arrive(&'static str, u32, u32),
    /// With how many rounds ago the generation was current: none in the future exists.
    Pass(&'static str, u64),
    Withdraw(&'static str, u32, u64),
}

impl Step {
    fn request(&self, model: &Model) -> Request<'_> {
        match self {
            Self::Set(key, value) => Request::Set { key, value },
            Self::Get(key) => Request::Get { key },
            Self::GetChanged(key, known) => Request::GetChanged { key, known },
            Self::MultiGet(keys) => Request::MultiGet { keys: keys.clone() },
            Self::MultiSet(pairs) => Request::MultiSet {
                pairs: pairs.iter().map(|(key, value)| Pair { key, value }).collect(),
            },
            Self::Add(key, delta) => Request::Add { key, delta: *delta },
            Self::CompareSet(key, expect, new) => {
                Request::CompareSet { key, expect: expect.as_deref(), new }
            }
            Self::Append(key, value) => Request::Append { key, value },
            Self::Wait(keys) => Request::Wait { keys: keys.clone() },
            Self::Delete(key) => Request::Delete { key },
            Self::Count(prefix) => Request::Count { prefix },
            Self::List(prefix) => Request::List { prefix },
            Self::Push(key, value) => Request::Push { key, value },
            Self::Pop(key) => Request::Pop { key },
            Self::QueueLen(key) => Request::QueueLen { key },
            Self::Arrive(key, rank, world) => Request::Arrive { key, rank: *rank, world: *world },
            Self::Pass(key, ago) => {
                Request::Pass { key, generation: model.generation(key).saturating_sub(*ago) }
            }
            Self::Withdraw(key, rank, ago) => Request::Withdraw {
                key,
                rank: *rank,
                generation: model.generation(key).saturating_sub(*ago),
            },
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (key(), value()).prop_map(|(key, value)| Step::Set(key, value)),
        2 => key().prop_map(Step::Get),
        2 => (key(), value()).prop_map(|(key, known)| Step::GetChanged(key, known)),
        1 => vec(key(), 0..4).prop_map(Step::MultiGet),
        1 => vec((key(), value()), 0..4).prop_map(Step::MultiSet),
        3 => (key(), delta()).prop_map(|(key, delta)| Step::Add(key, delta)),
        3 => (key(), proptest::option::of(value()), value())
            .prop_map(|(key, expect, new)| Step::CompareSet(key, expect, new)),
        2 => (key(), value()).prop_map(|(key, value)| Step::Append(key, value)),
        1 => vec(key(), 0..4).prop_map(Step::Wait),
        4 => key().prop_map(Step::Delete),
        1 => prefix().prop_map(Step::Count),
        1 => prefix().prop_map(Step::List),
        3 => (key(), value()).prop_map(|(key, value)| Step::Push(key, value)),
        2 => key().prop_map(Step::Pop),
        1 => key().prop_map(Step::QueueLen),
        4 => (key(), 0..4_u32, 1..4_u32)
            .prop_map(|(key, rank, world)| Step::Arrive(key, rank, world)),
        2 => (key(), 0..2_u64).prop_map(|(key, ago)| Step::Pass(key, ago)),
        2 => (key(), 0..3_u32, 0..2_u64)
            .prop_map(|(key, rank, ago)| Step::Withdraw(key, rank, ago)),
    ]
}

/// Few, so that requests meet; now and then one that is none.
fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![30 => select(vec!["a", "ab", "b", "b/c"]), 1 => Just("")]
}

fn prefix() -> impl Strategy<Value = &'static str> {
    select(vec!["", "a", "b/", "none"])
}

/// Few, so that compare_set meets what it expects; numbers among them.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let known = [b"".as_slice(), b"1", b"-7", b"12abc", b"\0\xff", b"9223372036854775807"];
    select(known.map(<[u8]>::to_vec).to_vec())
}

fn delta() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -3..4_i64, 1 => select(vec![i64::MIN, i64::MAX])]
}

/// What a refusal tells people beyond the facts; the model knows the facts.
fn without_words(mut reply: Reply) -> Reply {
    if let Reply::Refused(
        Refusal::BarrierRank { reason: words, .. } | Refusal::NotANumber { value: words, .. },
    ) = &mut reply
    {
        words.clear();
    }
    reply
}

fn in_words(error: Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}
