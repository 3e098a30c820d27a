//! A table taken apart, and put together again elsewhere.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Barrier, Entry, PER_ENTRY, Table};
use crate::error::Refusal;
use crate::request::{Request, check_value};

/// One part of a table: small enough to be written as one record, whatever the table holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part<'a> {
    /// A key with its value.
    Value {
        key: &'a str,
        #[serde(with = "serde_bytes")]
        value: &'a [u8],
    },
    /// The next element of a queue.
    Element {
        key: &'a str,
        #[serde(with = "serde_bytes")]
        value: &'a [u8],
    },
    /// A barrier in the middle of a round, or between two.
    Barrier { key: &'a str, world: u32, generation: u64, arrived: Vec<u32> },
}

impl Table {
    /// Everything the table holds. Restored into an empty table, in this order, the parts make
    /// one that is equal in every respect.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.entries.iter().flat_map(|(key, entry)| {
            let (one, elements) = match entry {
                Entry::Value(value) => (Some(Part::Value { key, value }), None),
                Entry::Queue(queue) => (None, Some(queue)),
                Entry::Barrier(barrier) => (Some(barrier_part(key, barrier)), None),
            };
            let elements = elements.into_iter().flatten();
            one.into_iter().chain(elements.map(move |value| Part::Element { key, value }))
        })
    }

    /// Adds a part. It may come from a damaged file, so it is checked like a request.
    pub(crate) fn restore(&mut self, part: &Part<'_>) -> Result<(), Refusal> {
        match part {
            Part::Value { key, value } => {
                Request::Set { key, value }.check(&self.limits)?;
                self.value(key)?;
                self.put(key, Entry::Value(value.to_vec()))
            }
            Part::Element { key, value } => self.restore_element(key, value),
            Part::Barrier { key, world, generation, arrived } => {
                Request::Get { key }.check(&self.limits)?;
                self.barrier(key)?;
                check_barrier(key, *world, *generation, arrived)?;
                let arrived: BTreeSet<u32> = arrived.iter().copied().collect();
                let barrier = Barrier { world: *world, generation: *generation, arrived };
                self.put(key, Entry::Barrier(barrier))
            }
        }
    }

    /// Unlike a push it needs exactly the room that the element takes: a table that was full when
    /// it was taken apart can be put together.
    fn restore_element(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        Request::Get { key }.check(&self.limits)?;
        check_value(key, value.len(), &self.limits)?;
        if self.queue(key)?.is_none() {
            return self.put(key, Entry::Queue(VecDeque::from([value.to_vec()])));
        }
        let growth = PER_ENTRY + value.len();
        self.check_room(growth)?;
        if let Some(Entry::Queue(queue)) = self.entries.get_mut(key) {
            queue.push_back(value.to_vec());
            self.held += growth;
            self.changes += 1;
        }
        Ok(())
    }
}

fn barrier_part<'a>(key: &'a str, barrier: &Barrier) -> Part<'a> {
    let Barrier { world, generation, ref arrived } = *barrier;
    Part::Barrier { key, world, generation, arrived: arrived.iter().copied().collect() }
}

/// A round that is complete, ranks that cannot be and a generation about to overflow come from
/// no table.
fn check_barrier(key: &str, world: u32, generation: u64, arrived: &[u32]) -> Result<(), Refusal> {
    let refuse = |rank, reason: &str| {
        let reason = reason.to_owned();
        Err(Refusal::BarrierRank { key: key.to_owned(), rank, world, reason })
    };
    if let Some(&rank) = arrived.iter().find(|&&rank| rank >= world) {
        return refuse(rank, "it is not one of them");
    }
    if world == 0 || arrived.len() >= world as usize || generation > u64::MAX / 2 {
        return refuse(0, "no barrier is ever in this state");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Limits;
    use crate::table::Outcome;

    fn apply_all(table: &mut Table, requests: &[Request<'_>]) {
        for request in requests {
            assert!(matches!(table.apply(request), Outcome::Settled(_)), "{request:?}");
        }
    }

    fn rebuilt(table: &Table, limits: Limits) -> Table {
        let mut again = Table::new(limits);
        for part in table.parts() {
            again.restore(&part).unwrap();
        }
        again
    }

    #[test]
    fn a_table_of_everything_is_rebuilt_equal() {
        let mut table = Table::new(Limits::STANDARD);
        apply_all(
            &mut table,
            &[
                Request::Set { key: "value", value: b"1" },
                Request::Set { key: "empty", value: b"" },
                Request::Push { key: "queue", value: b"first" },
                Request::Push { key: "queue", value: b"" },
                Request::Push { key: "queue", value: b"third" },
                Request::Arrive { key: "waiting", rank: 2, world: 3 },
                Request::Arrive { key: "waiting", rank: 0, world: 3 },
                Request::Arrive { key: "passed", rank: 0, world: 1 },
                Request::Arrive { key: "left", rank: 1, world: 2 },
                Request::Withdraw { key: "left", rank: 1, generation: 0 },
            ],
        );
        let again = rebuilt(&table, Limits::STANDARD);
        assert_eq!(again.entries, table.entries);
        assert_eq!(again.held, table.held);
    }

    #[test]
    fn a_full_table_is_rebuilt_without_extra_room() {
        let mut table = Table::new(Limits::STANDARD);
        apply_all(
            &mut table,
            &[
                Request::Push { key: "a rather long name for a queue", value: b"1" },
                Request::Push { key: "a rather long name for a queue", value: b"2" },
            ],
        );
        let full = Limits { store: table.held, ..Limits::STANDARD };
        assert_eq!(rebuilt(&table, full).entries, table.entries);
    }

    #[test]
    fn parts_that_no_table_has_are_refused() {
        let barrier = |world, generation, arrived: &[u32]| Part::Barrier {
            key: "b",
            world,
            generation,
            arrived: arrived.to_vec(),
        };
        let long = "k".repeat(Limits::STANDARD.key + 1);
        let mut table = Table::new(Limits::STANDARD);
        table.restore(&Part::Value { key: "v", value: b"" }).unwrap();
        for wrong in [
            barrier(2, 0, &[2]),
            barrier(2, 0, &[0, 1]),
            barrier(0, 0, &[]),
            barrier(2, u64::MAX, &[]),
            Part::Value { key: "", value: b"" },
            Part::Value { key: &long, value: b"" },
            Part::Element { key: "v", value: b"" },
            Part::Element { key: &long, value: b"" },
        ] {
            assert!(table.restore(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(table.parts().count(), 1);
    }
}
