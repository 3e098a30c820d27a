//! How many connections two processes have: found by trying.
//!
//! One connection is served by one core of each side's kernel at a time, and over long distances it is
//! as fast as its window permits; several may be faster, or only in each other's way. So the first large
//! calls travel over one connection, the next over two, then four, and from then on over as many as
//! were fastest. Each process decides for what it sends.

use std::time::Duration;

/// The trial, and what came of it.
#[derive(Debug)]
pub(super) struct Tuning {
    streams: usize,
    /// Of each number of connections that was tried, in bytes a microsecond.
    rates: Vec<Vec<f64>>,
    decided: bool,
}

impl Tuning {
    /// With so many, or as many as are best.
    pub(super) fn new(streams: Option<usize>) -> Self {
        Self { streams: streams.unwrap_or(1), rates: Vec::new(), decided: streams.is_some() }
    }

    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    /// Takes notice of how long a call took that sent so many bytes.
    pub(super) fn note(&mut self, bytes: usize, took: Duration) {
        if self.decided || bytes < WORTH {
            return;
        }
        let rate = bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6;
        match self.rates.last_mut() {
            Some(rates) if rates.len() < CALLS => rates.push(rate),
            _ => self.rates.push(vec![rate]),
        }
        if self.rates.last().is_some_and(|rates| rates.len() == CALLS) {
            self.go_on();
        }
    }

    /// Enough calls were made with this number of connections.
    fn go_on(&mut self) {
        let medians: Vec<f64> = self.rates.iter().map(|rates| median(rates)).collect();
        let (best, rest) = medians.split_last().expect("some calls were made");
        let before = rest.iter().copied().fold(0.0, f64::max);
        let is_better = *best > before * BETTER;
        if is_better && self.streams < MOST {
            self.streams *= 2;
            return;
        }
        if !is_better {
            self.streams /= 2;
        }
        self.decided = true;
        tracing::debug!("two ranks have {} connections: {medians:.0?} MB/s", self.streams);
    }
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Calls that send so much tell something: those that are not cut send less, over one connection.
const WORTH: usize = 2 << 20;
/// So many of them are made with each number of connections. The first may have to connect.
const CALLS: usize = 5;
/// As many connections as are tried.
const MOST: usize = 4;
/// More connections have to be worth it.
const BETTER: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many connections are found best, if they send so many megabytes a second.
    fn found(rate: impl Fn(usize) -> u64) -> usize {
        let mut tuning = Tuning::new(None);
        for _ in 0..100 {
            let rate = rate(tuning.streams());
            tuning.note(WORTH, Duration::from_nanos(WORTH as u64 * 1000 / rate));
        }
        tuning.streams()
    }

    #[test]
    fn as_many_connections_are_taken_as_are_fastest() {
        assert_eq!(found(|_| 1000), 1);
        assert_eq!(found(|streams| if streams < 2 { 1000 } else { 1500 }), 2);
        assert_eq!(found(|streams| 1000 * streams as u64), 4);
        assert_eq!(found(|streams| 1000 / streams as u64), 1);
    }

    #[test]
    fn small_calls_tell_nothing() {
        let mut tuning = Tuning::new(None);
        (0..100).for_each(|_| tuning.note(WORTH - 1, Duration::from_micros(1)));
        assert_eq!(tuning.streams(), 1);
    }

    #[test]
    fn what_was_said_stays() {
        let mut tuning = Tuning::new(Some(3));
        (0..100).for_each(|_| tuning.note(WORTH, Duration::from_micros(1)));
        assert_eq!(tuning.streams(), 3);
    }
}
