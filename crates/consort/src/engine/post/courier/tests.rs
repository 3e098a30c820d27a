//! The order of messages, with ranks that take turns in one thread.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_store::Deadline;
use consort_sys::dtype::Element;
use proptest::prelude::*;

use super::*;
use crate::engine::post::Exchange;
use crate::engine::post::ends::tests::linked;
use crate::engine::post::tests::posts;
use crate::error::Result;
use crate::group::Rank;
use crate::p2p::letter::{FromAny, FromRank, Letter, Posted, ToRank};
use crate::p2p::{Incoming, Tag};
use crate::work::Outcome;

/// A rank of several in one process.
struct Member {
    post: Arc<Post>,
    courier: Arc<Courier>,
}

impl Member {
    fn deliver<L: Letter>(&self, letter: L) -> Arc<Outcome<L::Gain, L::Buffer>> {
        let outcome = Arc::new(Outcome::default());
        let posted = Box::new(Posted { letter, outcome: outcome.clone() });
        self.courier.submit(Delivery::new(posted, "message", Deadline::never()));
        outcome
    }

    /// Receives what is there, if it is nobody else's.
    fn receive_now(&self, from: Option<u32>, tag: u32) -> Option<(u32, u64)> {
        let (from, tag) = (from.map(Rank), Tag::from(tag));
        let mut buffer = [0_u64];
        let buffer_of = u64::target(&mut buffer);
        let incoming = Incoming { dtype: u64::DTYPE, buffer: buffer_of, from, tag };
        let exchange = Exchange::new(None, Some(incoming));
        let from = self.post.carry_out(exchange, Duration::ZERO).ok()??;
        Some((from as u32, buffer[0]))
    }
}

#[derive(Clone, Debug)]
enum Act {
    Send { from: usize, to: u32, tag: u32 },
    Receive { at: usize, from: Option<u32>, tag: u32, blocks: bool },
}

fn any_act() -> impl Strategy<Value = Act> {
    let (at, rank, tag) = (0..3_usize, 0..3_u32, 0..2_u32);
    let from = prop::option::of(rank.clone());
    prop_oneof![
        (at.clone(), rank, tag.clone()).prop_map(|(from, to, tag)| Act::Send { from, to, tag }),
        (at, from, tag, prop::bool::weighted(0.2))
            .prop_map(|(at, from, tag, blocks)| Act::Receive { at, from, tag, blocks }),
    ]
}

type Numbers = Vec<u64>;

/// A receive, in the order in which they were made at its rank with its tag.
enum Receive {
    Done(u32, u64),
    FromOne(u32, Arc<Outcome<Numbers>>),
    FromAny(Arc<Outcome<(Numbers, Rank), Numbers>>),
}

impl Receive {
    /// Whose message it got, and which, if it got one.
    fn look(&mut self) -> Option<(u32, u64)> {
        let done = match self {
            Self::Done(from, number) => (*from, *number),
            Self::FromOne(from, outcome) => (*from, now(outcome)?[0]),
            Self::FromAny(outcome) => {
                let (buffer, from) = now(outcome)?;
                (from.get(), buffer[0])
            }
        };
        *self = Self::Done(done.0, done.1);
        Some(done)
    }

    fn is_for(&self, sender: u32) -> bool {
        match self {
            Self::Done(..) => false,
            Self::FromOne(from, _) => *from == sender,
            Self::FromAny(_) => true,
        }
    }
}

fn now<T, B>(outcome: &Outcome<T, B>) -> Option<T> {
    let known = outcome.wait_until(Deadline::now())?;
    Some(known.unwrap_or_else(|failed| panic!("{failed}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whoever_asked_first_gets_what_was_sent_first(
        acts in prop::collection::vec(any_act(), 1..120),
    ) {
        for posts in [posts(3), linked(3)] {
            check_order(posts, acts.clone())?;
        }
    }
}

fn check_order(posts: Vec<Post>, acts: Vec<Act>) -> Result<(), TestCaseError> {
    let patience = Patience::for_ranks(8, 1);
    let member = |post: Post| {
        let post = Arc::new(post);
        Member { courier: Courier::new(post.clone(), patience), post }
    };
    let members: Vec<Member> = posts.into_iter().map(member).collect();
    let mut sent: BTreeMap<(u32, usize, u32), u64> = BTreeMap::new();
    let mut receives: BTreeMap<(usize, u32), Vec<Receive>> = BTreeMap::new();
    for act in acts {
        match act {
            Act::Send { from, to, tag } => {
                let count = sent.entry((from as u32, to as usize, tag)).or_default();
                members[from].deliver(ToRank { data: vec![*count], to: Rank(to), tag: tag.into() });
                *count += 1;
            }
            Act::Receive { at, from, tag, blocks: true } => {
                let got = members[at].receive_now(from, tag);
                let made = receives.entry((at, tag)).or_default();
                made.extend(got.map(|(from, number)| Receive::Done(from, number)));
            }
            Act::Receive { at, from, tag: tag_number, blocks: false } => {
                let (buffer, tag) = (vec![u64::MAX], tag_number.into());
                let receive = match from {
                    Some(from) => {
                        let letter = FromRank { buffer, from: Rank(from), tag };
                        Receive::FromOne(from, members[at].deliver(letter))
                    }
                    None => Receive::FromAny(members[at].deliver(FromAny { buffer, tag })),
                };
                receives.entry((at, tag_number)).or_default().push(receive);
            }
        }
    }
    for ((at, tag), receives) in &mut receives {
        let settled = settle(*at, *tag, receives, &sent);
        prop_assert!(settled.is_ok(), "{}", settled.unwrap_err());
    }
    members.iter().for_each(|member| member.post.lookout.abort("enough"));
    Ok(())
}

/// Waits until nobody waits for what was sent, and checks the order.
fn settle(
    at: usize,
    tag: u32,
    receives: &mut [Receive],
    sent: &BTreeMap<(u32, usize, u32), u64>,
) -> Result<(), String> {
    let until = Deadline::after(Duration::from_secs(30));
    loop {
        let got: Vec<(u32, u64)> = receives.iter_mut().filter_map(Receive::look).collect();
        let left = |sender: &u32| {
            let all = sent.get(&(*sender, at, tag)).copied().unwrap_or(0);
            let mine = got.iter().filter(|(from, _)| from == sender).count() as u64;
            all > mine
        };
        let waits = (0..3).filter(left).find(|&from| receives.iter().any(|it| it.is_for(from)));
        if let Some(from) = waits {
            if until.has_passed() {
                return Err(format!("rank {at} has not received from rank {from} with tag {tag}"));
            }
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        for sender in 0..3 {
            let numbers = got.iter().filter(|(from, _)| *from == sender).map(|(_, it)| *it);
            let numbers: Vec<u64> = numbers.collect();
            if !numbers.iter().copied().eq(0..numbers.len() as u64) {
                return Err(format!("rank {at} got {numbers:?} from rank {sender}, tag {tag}"));
            }
        }
        return Ok(());
    }
}
