//! Symbols: contributions and their combinations, each stored once.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::Order;
use crate::mix::Mix;

/// A symbol. [`UNDEFINED`] is none; then come the contributions, then the combinations.
pub(super) type Value = u32;

pub(super) const UNDEFINED: Value = 0;

/// All symbols of a run.
pub(super) struct Values {
    /// How many chunks each rank contributes at most.
    width: u32,
    contributions: u32,
    combinations: Vec<Combination>,
    known: HashMap<(Value, Value), Value, BuildHasherDefault<Mix>>,
}

/// Two values, combined in this order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    first: Value,
    second: Value,
    /// How many contributions are in it.
    weight: u32,
    /// Of which chunk they are.
    chunk: u32,
    /// Who combined them first, and when.
    pub(super) rank: u32,
    pub(super) round: u32,
}

impl Values {
    pub(super) fn new(world: u32, width: u32) -> Self {
        let combinations = Vec::new();
        Self { width, contributions: world * width, combinations, known: HashMap::default() }
    }

    pub(super) fn contribution(&self, rank: u32, chunk: u32) -> Value {
        1 + rank * self.width + chunk
    }

    /// Combines two defined values.
    pub(super) fn combine(&mut self, first: Value, second: Value, rank: u32, round: u32) -> Value {
        let (weight, chunk) = (self.weight(first) + self.weight(second), self.chunk(first));
        let next = 1 + self.contributions + self.combinations.len() as u32;
        let value = *self.known.entry((first, second)).or_insert(next);
        if value == next {
            self.combinations.push(Combination { first, second, weight, chunk, rank, round });
        }
        value
    }

    /// How many contributions are in a value.
    pub(super) fn weight(&self, value: Value) -> u32 {
        self.combination(value).map_or(1, |it| it.weight)
    }

    /// Of which chunk a value is.
    pub(super) fn chunk(&self, value: Value) -> u32 {
        self.combination(value).map_or_else(|| self.contributor(value).1, |it| it.chunk)
    }

    /// Whose contribution a value is (rank, chunk), if it is not a combination.
    pub(super) fn contributor(&self, value: Value) -> (u32, u32) {
        ((value - 1) / self.width, (value - 1) % self.width)
    }

    /// The contributors of a value from left to right, given to `each`.
    pub(super) fn walk(&self, value: Value, mut each: impl FnMut(u32)) {
        let mut rest = vec![value];
        while let Some(value) = rest.pop() {
            match self.combination(value) {
                Some(it) => rest.extend([it.second, it.first]),
                None => each(self.contributor(value).0),
            }
        }
    }

    /// The innermost combination in which a rank comes from both sides.
    pub(super) fn doubled(&self, value: Value, rank: u32) -> Option<Combination> {
        let count = |value| {
            let mut count = 0;
            self.walk(value, |contributor| count += u32::from(contributor == rank));
            count
        };
        let mut it = self.combination(value)?;
        loop {
            match (count(it.first), count(it.second)) {
                (left, _) if left > 1 => it = self.combination(it.first)?,
                (_, right) if right > 1 => it = self.combination(it.second)?,
                _ => return Some(it),
            }
        }
    }

    /// In which order the contributors of a complete value come.
    pub(super) fn order(&self, value: Value) -> Order {
        let (mut first, mut last, mut drops) = (None, 0, 0);
        self.walk(value, |rank| {
            drops += u32::from(first.is_some() && rank < last);
            first.get_or_insert(rank);
            last = rank;
        });
        match drops {
            0 => Order::Ranks,
            1 if first.is_some_and(|first| last < first) => Order::Turned,
            _ => Order::Mixed,
        }
    }

    /// `(0∘1)∘2` of chunk 3, cut when it is long.
    pub(super) fn write(&self, value: Value) -> String {
        if value == UNDEFINED {
            return "nothing".to_owned();
        }
        match self.combination(value) {
            None => {
                let (rank, chunk) = self.contributor(value);
                format!("chunk {chunk} of rank {rank}")
            }
            Some(it) => format!("{} of chunk {}", self.write_combination(it), it.chunk),
        }
    }

    /// `(0∘1)∘2`, cut when it is long.
    pub(super) fn write_combination(&self, it: Combination) -> String {
        let mut text = String::new();
        self.write_inner(it.first, &mut text);
        text.push('∘');
        self.write_inner(it.second, &mut text);
        if text.chars().count() > LONGEST {
            text = text.chars().take(LONGEST).collect::<String>() + "…";
        }
        text
    }

    fn write_inner(&self, value: Value, text: &mut String) {
        if text.len() > 4 * LONGEST {
            return;
        }
        match self.combination(value) {
            None => text.push_str(&self.contributor(value).0.to_string()),
            Some(it) => {
                text.push('(');
                self.write_inner(it.first, text);
                text.push('∘');
                self.write_inner(it.second, text);
                text.push(')');
            }
        }
    }

    fn combination(&self, value: Value) -> Option<Combination> {
        let index = value.checked_sub(1 + self.contributions)?;
        self.combinations.get(index as usize).copied()
    }
}

const LONGEST: usize = 80;
