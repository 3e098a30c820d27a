//! What clients asked and were told, and whether one store could have told it.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::{Reply, Request};

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Adds one to the counter.
    Add,
    /// Reads the counter.
    Read,
    /// Adds an element that nobody else adds.
    Push(u64),
    /// Takes an element.
    Pop,
    /// Lets those go on who wait for this.
    Set(u64),
    /// Waits for it.
    Wait(u64),
}

impl Op {
    /// Whether it may have to wait for another.
    pub(crate) fn can_wait(&self) -> bool {
        self.with_request(|request| request.can_wait())
    }

    pub(crate) fn with_request<T>(&self, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let (name, element) = match self {
            Self::Set(flag) | Self::Wait(flag) => (format!("flag/{flag}"), String::new()),
            Self::Push(element) => ("queue".to_owned(), element.to_string()),
            Self::Pop => ("queue".to_owned(), String::new()),
            Self::Add | Self::Read => ("count".to_owned(), String::new()),
        };
        let (key, value) = (name.as_str(), element.as_bytes());
        then(&match self {
            Self::Add => Request::Add { key, delta: 1 },
            Self::Read => Request::Get { key },
            Self::Push(_) => Request::Push { key, value },
            Self::Pop => Request::Pop { key },
            Self::Set(_) => Request::Set { key, value },
            Self::Wait(_) => Request::Wait { keys: vec![key] },
        })
    }
}

/// One call from its beginning to its answer, if it got one.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) began: u64,
    pub(crate) ended: Option<(u64, Reply)>,
}

/// All calls of a world.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
}

impl History {
    /// Whether there is a counter that can be read.
    pub(crate) fn has_counted(&self) -> bool {
        self.calls.iter().any(|call| call.op == Op::Add && call.ended.is_some())
    }

    /// Everything was as one store would have done it, each call at one moment between its
    /// beginning and its end. If a store is left, what is left in it has been `taken`.
    pub(crate) fn check(&self, taken: bool) {
        self.check_counter();
        self.check_queue(taken);
        self.check_flags();
    }

    /// Adds of one give every number once; who began later got more.
    fn check_counter(&self) {
        let adds = self.numbers(&Op::Add);
        let mut seen = BTreeSet::new();
        for (_, _, number) in &adds {
            assert!(seen.insert(*number), "two adds were told {number}");
        }
        let tried = self.calls.iter().filter(|call| call.op == Op::Add).count() as i64;
        let most = seen.last().copied().unwrap_or(0);
        assert!(most <= tried, "{tried} adds made {most}");
        for (_, ended, before) in &adds {
            for (began, _, after) in &adds {
                assert!(ended >= began || before < after, "{after} came after {before}");
            }
        }
        for (began, ended, read) in self.numbers(&Op::Read) {
            for (add_began, add_ended, number) in &adds {
                assert!(
                    *add_ended >= began || *number <= read,
                    "{number} was lost: {read} was read"
                );
                assert!(ended >= *add_began || *number > read, "{read} was read before {number}");
            }
        }
    }

    /// Nothing is taken twice, nothing is taken that nobody brought, and nothing is lost but what
    /// may have been given to somebody who did not hear of it.
    fn check_queue(&self, all_taken: bool) {
        let mut brought: BTreeMap<u64, bool> = BTreeMap::new();
        let (mut taken, mut unheard) = (BTreeSet::new(), 0);
        for call in &self.calls {
            match (&call.op, &call.ended) {
                (Op::Push(element), ended) => {
                    brought.insert(*element, ended.is_some());
                }
                (Op::Pop, Some((_, Reply::Value(value)))) => {
                    let element = String::from_utf8_lossy(value).parse::<u64>().unwrap();
                    assert!(taken.insert(element), "element {element} was taken twice");
                }
                (Op::Pop, None) => unheard += 1,
                _ => {}
            }
        }
        assert!(taken.iter().all(|element| brought.contains_key(element)));
        let lost = brought.iter().filter(|(it, told)| **told && !taken.contains(it)).count();
        // As many as may have been brought without anybody's knowing may be left instead.
        unheard += brought.values().filter(|told| !**told).count();
        assert!(!all_taken || lost <= unheard, "{lost} elements were lost, {unheard} in doubt");
    }

    /// Nobody went on before somebody let it.
    fn check_flags(&self) {
        for call in &self.calls {
            let (Op::Wait(flag), Some((ended, _))) = (&call.op, &call.ended) else { continue };
            let let_go = |it: &Call| it.op == Op::Set(*flag) && it.began <= *ended;
            assert!(self.calls.iter().any(let_go), "nobody has set {flag}");
        }
    }

    /// Beginning, end and number of all calls of this kind that were answered.
    fn numbers(&self, op: &Op) -> Vec<(u64, u64, i64)> {
        let of_kind = self.calls.iter().filter(|call| call.op == *op);
        let number = |call: &Call| match call.ended.as_ref()? {
            (ended, Reply::Number(number)) => Some((call.began, *ended, *number)),
            (ended, Reply::Value(text)) => {
                let number = String::from_utf8_lossy(text).parse().unwrap();
                Some((call.began, *ended, number))
            }
            (_, other) => panic!("{op:?} was answered with {other:?}"),
        };
        of_kind.filter_map(number).collect()
    }
}
