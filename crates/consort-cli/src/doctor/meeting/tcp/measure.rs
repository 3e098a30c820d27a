//! How fast a store answers.

use std::time::{Duration, Instant};

use consort_store::{Deadline, Result, Store};

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// The median of the store's answers to a small question.
    pub(super) round_trip: Duration,
    /// How many were asked.
    pub(super) rounds: usize,
    /// Bytes a second to the store and back, in values of a mebibyte.
    pub(super) there: f64,
    pub(super) back: f64,
}

impl Figures {
    /// Talks to the store for about two seconds, and removes what it wrote.
    pub(super) fn measure(store: &impl Store) -> Result<Self> {
        let key = format!("consort-doctor/{}/{}", host(), std::process::id());
        let figures = measure_with(store, &key);
        let removed = store.delete(&key);
        figures.and_then(|figures| removed.map(|_| figures))
    }
}

fn measure_with(store: &impl Store, key: &str) -> Result<Figures> {
    let mut rounds = Vec::with_capacity(MOST_ROUNDS);
    let end = Instant::now() + STRETCH;
    while rounds.is_empty() || (rounds.len() < MOST_ROUNDS && Instant::now() < end) {
        rounds.push(timed(|| store.check(&[key]))?);
    }
    rounds.sort_unstable();

    let value = vec![b'c'; VALUE];
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let end = Instant::now() + STRETCH;
    while there.is_empty() || Instant::now() < end {
        there.push(timed(|| store.set(key, &value))?);
        back.push(timed(|| store.get(key, Deadline::after(store.patience())))?);
    }
    Ok(Figures {
        round_trip: rounds[rounds.len() / 2],
        rounds: rounds.len(),
        there: speed(&there),
        back: speed(&back),
    })
}

fn timed<T>(call: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let started = Instant::now();
    call().map(|_| started.elapsed())
}

fn speed(times: &[Duration]) -> f64 {
    let total: Duration = times.iter().sum();
    (times.len() * VALUE) as f64 / total.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Two hosts may have processes of one number.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

const MOST_ROUNDS: usize = 1000;
const STRETCH: Duration = Duration::from_secs(1);
const VALUE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use consort_store::MemStore;

    use super::*;

    #[test]
    fn measuring_leaves_the_store_as_it_was() {
        let store = MemStore::new();
        store.set("job", b"7").unwrap();
        let figures = Figures::measure(&store).unwrap();
        assert_eq!(store.list_keys().unwrap(), ["job"]);
        assert!(figures.rounds >= 1 && figures.there > 0.0 && figures.back > 0.0, "{figures:?}");
    }

    #[test]
    fn speed_is_bytes_over_time() {
        assert_eq!(speed(&[Duration::from_millis(500); 2]), 2.0 * VALUE as f64);
    }
}
