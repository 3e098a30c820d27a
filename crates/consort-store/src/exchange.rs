//! Small collectives over a store, for a fixed set of ranks that must agree before there is
//! anything better to talk over.

use std::sync::Arc;

use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Missing, Refusal, Result};
use crate::request::Swap;
use crate::store::Store;

/// `world` ranks that exchange a few bytes through a store.
///
/// Every call names an occasion, which must be new each time; all ranks name the same. A rank
/// that does not come is named in the others' error.
///
/// ```
/// use consort_store::{Deadline, Exchange, MemStore};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let store = Arc::new(MemStore::new());
/// let until = Deadline::after(Duration::from_secs(10));
/// let ranks: Vec<_> = (0..3)
///     .map(|rank| {
///         let exchange = Exchange::new(store.clone(), rank, 3);
///         std::thread::spawn(move || exchange.all_sum("votes", i64::from(rank), until))
///     })
///     .collect();
/// for rank in ranks {
///     assert_eq!(rank.join().unwrap()?, 0 + 1 + 2);
/// }
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exchange {
    store: Arc<dyn Store>,
    rank: u32,
    world: u32,
}

impl Exchange {
    /// This rank's part in the exchanges of `world` ranks.
    pub fn new(store: Arc<dyn Store>, rank: u32, world: u32) -> Self {
        Self { store, rank, world }
    }

    /// Everyone gets everyone's bytes, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Timeout`] names the ranks that did not come; [`Error::RankTaken`] when another
    /// process came as this rank.
    pub fn all_gather(&self, occasion: &str, mine: &[u8], until: Deadline) -> Result<Vec<Vec<u8>>> {
        self.put(occasion, self.rank, mine)?;
        self.take_all(occasion, until)
    }

    /// The root gets everyone's bytes, in the order of ranks; the others get nothing.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather); ranks other than the root do not wait.
    pub fn gather(
        &self,
        occasion: &str,
        root: u32,
        mine: &[u8],
        until: Deadline,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        self.put(occasion, self.rank, mine)?;
        if self.rank != root {
            return Ok(None);
        }
        self.take_all(occasion, until).map(Some)
    }

    /// Everyone gets the root's bytes. The root passes `Some`, the others `None`.
    ///
    /// # Errors
    /// [`Error::Timeout`] when the root did not come.
    pub fn broadcast(
        &self,
        occasion: &str,
        root: u32,
        mine: Option<&[u8]>,
        until: Deadline,
    ) -> Result<Vec<u8>> {
        if let Some(mine) = mine {
            self.put(occasion, root, mine)?;
        }
        self.take(occasion, root, root, until)
    }

    /// Everyone gets its own piece from the root, which passes one for each rank.
    ///
    /// # Errors
    /// [`Error::Timeout`] when the root did not come; [`Error::Pieces`] when the root passes more
    /// or fewer pieces than there are ranks.
    pub fn scatter(
        &self,
        occasion: &str,
        root: u32,
        pieces: Option<&[Vec<u8>]>,
        until: Deadline,
    ) -> Result<Vec<u8>> {
        if let Some(pieces) = pieces {
            if pieces.len() != self.world as usize {
                return Err(Error::Pieces { given: pieces.len(), world: self.world });
            }
            for (rank, piece) in (0..).zip(pieces) {
                self.put(occasion, rank, piece)?;
            }
        }
        self.take(occasion, self.rank, root, until)
    }

    /// Everyone gets the sum of everyone's number.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather); a refusal when the sum does not fit in 64 bits.
    pub fn all_sum(&self, occasion: &str, mine: i64, until: Deadline) -> Result<i64> {
        let numbers = self.all_gather(occasion, &mine.to_le_bytes(), until)?;
        let mut sum = 0_i64;
        for (rank, bytes) in (0_u32..).zip(&numbers) {
            let key = place(occasion, rank);
            let number = <[u8; 8]>::try_from(bytes.as_slice()).map(i64::from_le_bytes);
            let value = String::from_utf8_lossy(bytes);
            let delta = number
                .map_err(|_| Refusal::NotANumber { key: key.clone(), value: value.into_owned() })?;
            let overflow = Refusal::Overflow { key, value: sum, delta };
            sum = sum.checked_add(delta).ok_or(overflow)?;
        }
        Ok(sum)
    }

    /// Nobody goes on before everyone has come.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    pub fn barrier(&self, occasion: &str, until: Deadline) -> Result<()> {
        self.all_gather(occasion, b"", until).map(|_| ())
    }

    fn put(&self, occasion: &str, rank: u32, bytes: &[u8]) -> Result<()> {
        match self.store.compare_set(&place(occasion, rank), None, bytes)? {
            Swap::Swapped => Ok(()),
            _ => Err(Error::RankTaken { rank, occasion: occasion.to_owned() }),
        }
    }

    /// The bytes at `rank`'s place, which `from` has to bring.
    fn take(&self, occasion: &str, rank: u32, from: u32, until: Deadline) -> Result<Vec<u8>> {
        self.store.get(&place(occasion, rank), until).map_err(|error| match error {
            Error::Timeout { verb, waited, missing } if missing.count > 0 => {
                let missing = Missing::collect([format!("rank {from}")].into_iter());
                Error::Timeout { verb, waited, missing }
            }
            other => other,
        })
    }

    fn take_all(&self, occasion: &str, until: Deadline) -> Result<Vec<Vec<u8>>> {
        let started = clock_now();
        let places: Vec<String> = (0..self.world).map(|rank| place(occasion, rank)).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        match self.store.multi_get(&places, until) {
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => {
                match self.who_is_missing(&places)? {
                    // The last one came while we looked.
                    Missing { count: 0, .. } => self.store.multi_get(&places, Deadline::now()),
                    missing => {
                        let waited = started.elapsed();
                        Err(Error::Timeout { verb: "exchange", waited, missing })
                    }
                }
            }
            other => other,
        }
    }

    fn who_is_missing(&self, places: &[&str]) -> Result<Missing> {
        let mut absent = Vec::new();
        for (rank, place) in (0..).zip(places) {
            if !self.store.check(&[place])? {
                absent.push(rank);
            }
        }
        Ok(Missing::collect(absent.iter().map(|rank: &u32| format!("rank {rank}"))))
    }
}

fn place(occasion: &str, rank: u32) -> String {
    format!("{occasion}/{rank}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::mem::MemStore;

    fn together<T: Send + 'static>(
        world: u32,
        each: impl Fn(Exchange) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let store = Arc::new(MemStore::new());
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                let exchange = Exchange::new(store.clone(), rank, world);
                let each = each.clone();
                std::thread::spawn(move || each(exchange))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(10))
    }

    #[test]
    fn everyone_gathers_everyones_bytes_in_order() {
        let all = together(5, |exchange| {
            exchange.all_gather("g", &[exchange.rank as u8; 3], soon()).unwrap()
        });
        let expected: Vec<Vec<u8>> = (0..5).map(|rank| vec![rank; 3]).collect();
        assert_eq!(all, vec![expected; 5]);
    }

    #[test]
    fn only_the_root_gathers() {
        let all = together(3, |exchange| {
            exchange.gather("g", 1, &[exchange.rank as u8], soon()).unwrap()
        });
        assert_eq!(all, [None, Some(vec![vec![0], vec![1], vec![2]]), None]);
    }

    #[test]
    fn a_broadcast_and_a_scatter_reach_everyone() {
        let all = together(3, |exchange| {
            let root = exchange.rank == 2;
            let all = exchange.broadcast("b", 2, root.then_some(b"word"), soon()).unwrap();
            let pieces: Vec<Vec<u8>> = (10..13).map(|byte| vec![byte]).collect();
            let mine = exchange.scatter("s", 2, root.then_some(&pieces[..]), soon()).unwrap();
            (all, mine)
        });
        let expected = [10, 11, 12].map(|byte| (b"word".to_vec(), vec![byte]));
        assert_eq!(all, expected);
    }

    #[test]
    fn the_sum_is_whole_on_every_rank() {
        let all = together(7, |exchange| {
            exchange.all_sum("n", 10_i64.pow(exchange.rank), soon()).unwrap()
        });
        assert_eq!(all, [1_111_111; 7]);
    }

    #[test]
    fn who_does_not_come_is_named() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        Exchange::new(store.clone(), 2, 4).put("g", 2, b"").unwrap();
        let until = Deadline::after(Duration::from_millis(30));
        let error = Exchange::new(store, 0, 4).all_gather("g", b"", until).unwrap_err();
        assert!(error.to_string().ends_with("missing rank 1, rank 3"), "{error}");
    }

    #[test]
    fn two_processes_of_one_rank_are_found_out() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        Exchange::new(store.clone(), 1, 2).put("g", 1, b"").unwrap();
        let error = Exchange::new(store, 1, 2).all_gather("g", b"", soon()).unwrap_err();
        assert!(matches!(error, Error::RankTaken { rank: 1, .. }), "{error}");
    }

    #[test]
    fn a_second_process_of_a_rank_does_not_spoil_the_sum() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        Exchange::new(store.clone(), 1, 2).put("n", 1, &1_i64.to_le_bytes()).unwrap();
        assert!(Exchange::new(store.clone(), 1, 2).all_sum("n", 10, soon()).is_err());
        assert_eq!(Exchange::new(store, 0, 2).all_sum("n", 10, soon()).unwrap(), 11);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_refused() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        Exchange::new(store.clone(), 1, 2).put("n", 1, &1_i64.to_le_bytes()).unwrap();
        let error = Exchange::new(store, 0, 2).all_sum("n", i64::MAX, soon()).unwrap_err();
        assert!(matches!(error, Error::Refused(Refusal::Overflow { .. })), "{error}");
    }

    #[test]
    fn a_piece_too_few_is_refused_before_anything_is_sent() {
        let store = Arc::new(MemStore::new());
        let error = Exchange::new(store.clone(), 0, 3)
            .scatter("s", 0, Some(&[vec![], vec![]]), soon())
            .unwrap_err();
        assert!(matches!(error, Error::Pieces { given: 2, world: 3 }), "{error}");
        assert_eq!(store.num_keys().unwrap(), 0);
    }
}
