//! Calls on values, beside what should come of them.

use consort::functional::{Array, Collective, Meta, Pending, Value, start};
use consort::{Element, Group};

use super::numbers::{Number, scramble};
use super::oracle::result;

/// A call of all ranks: what each of them calls, with a value of which shape.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) calls: Vec<Collective>,
    pub(crate) shapes: Vec<Vec<usize>>,
}

impl Round {
    /// The same call on every rank.
    pub(crate) fn alike(world: usize, call: &Collective, shape: &[usize]) -> Self {
        Self { calls: vec![call.clone(); world], shapes: vec![shape.to_vec(); world] }
    }

    /// What every rank has, of numbers that are made of random ones.
    pub(crate) fn values<T: Element>(&self, seed: usize, number: fn(u64) -> T) -> Vec<Array<T>> {
        let value = |(rank, shape): (usize, &Vec<usize>)| {
            let code = |at: usize| number(scramble(((seed * 31 + rank) * 65_537 + at) as u64));
            let numbers = (0..shape.iter().product()).map(code).collect();
            Array::new(shape.clone(), numbers).unwrap()
        };
        self.shapes.iter().enumerate().map(value).collect()
    }
}

/// A call that has begun.
pub(crate) struct Begun<T: Element> {
    what: String,
    given: Array<T>,
    copy: Array<T>,
    right: Array<T>,
    pub(crate) pending: Pending<Array<T>>,
}

impl<T: Number> Begun<T> {
    pub(crate) fn new(round: &Round, seed: usize, number: fn(u64) -> T, group: &Group) -> Self {
        let (me, world) = (group.rank(), group.world());
        let values = round.values(seed, number);
        let call = round.calls[me.index()].clone();
        let given = values[me.index()].clone();
        let copy = given.clone();
        let what = format!("rank {me} of {world}: {call} of {}", given.meta().unwrap());
        let right = result(me.index(), &round.calls, &values, T::combine);
        let meta = call.meta(&given.meta().unwrap(), me, world).unwrap();
        assert_eq!(meta, Meta::new(T::DTYPE, right.shape()), "{what}");
        let pending = start(call, &given, group).unwrap();
        Self { what, given, copy, right, pending }
    }

    /// It gives what it should, and has left alone what it was given.
    pub(crate) fn check(self) {
        let found = self.pending.wait().unwrap();
        assert_same(&found, &self.right, &self.what);
        assert_same(&self.given, &self.copy, &self.what);
    }
}

/// All of these, one after the other without waiting, and then each of them.
pub(crate) fn check_all<T: Number>(rounds: &[Round], number: fn(u64) -> T, group: &Group) {
    let begin = |(seed, round)| Begun::new(round, seed, number, group);
    let begun: Vec<Begun<T>> = rounds.iter().enumerate().map(begin).collect();
    begun.into_iter().for_each(Begun::check);
}

/// The same bits in the same shape.
pub(crate) fn assert_same<T: Element>(found: &Array<T>, right: &Array<T>, what: &str) {
    assert_eq!(found.shape(), right.shape(), "{what}");
    let (found, right) = (found.numbers(), right.numbers());
    assert_eq!(found.len(), right.len(), "{what}");
    if let Some(at) =
        (0..right.len()).find(|&at| T::bytes(&found[at..=at]) != T::bytes(&right[at..=at]))
    {
        panic!("{what}: number {at} is {:?} instead of {:?}", found[at], right[at]);
    }
}

/// The groups of the first ranks, from all to one, that this rank is in.
pub(crate) fn parts(group: &Group) -> Vec<Group> {
    let worlds = (1..=group.world() as u32).rev();
    let mine = worlds.filter(|&world| group.rank().get() < world);
    mine.map(|world| group.subgroup(&(0..world).collect::<Vec<_>>()).unwrap()).collect()
}
