//! Measures several implementations in turn, so that all meet the same machine.

use super::measurer::{Measurer, Refusal};
use super::point::Point;
use super::raw;
use super::record::{Record, to_four_places};

/// What everyone reached at one point; ours is the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// The point.
    pub(crate) point: Point,
    /// In the order of the measurers; none for one that could not measure it.
    pub(crate) records: Vec<Option<Record>>,
}

impl Comparison {
    /// The best peer's median by ours: above 1 we are faster. Bare sockets are no peer.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let (ours, peers) = self.records.split_first()?;
        let peers = peers.iter().flatten().filter(|record| record.name != raw::NAME);
        let times = peers.map(|record| record.p50_us);
        let best = times.min_by(f64::total_cmp)?;
        Some(best / ours.as_ref()?.p50_us)
    }

    /// Our bus bandwidth by what bare sockets carry each way: 1 is all that there is.
    pub(crate) fn part_of_raw(&self) -> Option<f64> {
        let ours = self.records.first()?.as_ref()?;
        let raw = self.records.iter().flatten().find(|record| record.name == raw::NAME)?;
        let carried = |record: &Record| record.op.bus_factor(record.ranks) / record.p50_us;
        Some(carried(ours) / carried(raw))
    }

    /// Whether the cores moved between the measurements, so that they cannot be compared.
    pub(crate) fn is_shaky(&self) -> bool {
        is_shaky(self.records.iter().flatten().filter_map(|record| record.hop_us))
    }
}

/// Measurers in turn, round after round.
pub(crate) struct Contest<'a> {
    measurers: Vec<Box<dyn Measurer + 'a>>,
    /// Why each one that is out of it is.
    gone: Vec<Option<String>>,
    rounds: u32,
    /// How long a cache line takes from core to core, in microseconds.
    hop: &'a mut dyn FnMut() -> Option<f64>,
    /// Hears of whatever could not be measured.
    note: &'a mut dyn FnMut(&str),
}

impl<'a> Contest<'a> {
    /// Ours first, then the peers.
    pub(crate) fn new(
        measurers: Vec<Box<dyn Measurer + 'a>>,
        rounds: u32,
        hop: &'a mut dyn FnMut() -> Option<f64>,
        note: &'a mut dyn FnMut(&str),
    ) -> Self {
        let gone = vec![None; measurers.len()];
        Self { measurers, gone, rounds, hop, note }
    }

    /// The names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.measurers.iter().map(|measurer| measurer.name().to_owned()).collect()
    }

    /// Measures a point with everyone, `rounds` times. Each round begins with another one, so that
    /// nobody always follows the same.
    ///
    /// # Errors
    /// When ours is gone, why.
    pub(crate) fn measure(&mut self, point: &Point) -> Result<Comparison, String> {
        let count = self.measurers.len();
        let mut found: Vec<Vec<Record>> = vec![Vec::new(); count];
        let mut declined = vec![false; count];
        for round in 0..self.rounds as usize {
            for at in (0..count).map(|place| (round + place) % count) {
                if declined[at] || self.gone[at].is_some() {
                    continue;
                }
                match self.measure_one(at, point) {
                    Ok(record) => found[at].push(record),
                    Err(Refusal::Point(why)) => {
                        declined[at] = true;
                        let Point { op, dtype, bytes, .. } = point;
                        let what = format!("no {op} of {bytes} bytes of {dtype}: {why}");
                        // Whatever is said without a name is said of ours.
                        match at {
                            0 => (self.note)(&what),
                            _ => (self.note)(&format!("{}: {what}", self.measurers[at].name())),
                        }
                    }
                    Err(Refusal::Gone(why)) if at == 0 => return Err(why),
                    Err(Refusal::Gone(why)) => {
                        (self.note)(&format!("{why}\n    it is left out from here on"));
                        self.gone[at] = Some(why);
                    }
                }
            }
        }
        let records = found.iter().map(|records| Record::middle(records)).collect();
        Ok(Comparison { point: point.clone(), records })
    }

    fn measure_one(&mut self, at: usize, point: &Point) -> Result<Record, Refusal> {
        let before = (self.hop)();
        let mut record = self.measurers[at].measure(point)?;
        // If the cores moved meanwhile, the larger one says that it was not the near case.
        let hop = before.into_iter().chain((self.hop)()).reduce(f64::max);
        record.hop_us = hop.map(to_four_places);
        Ok(record)
    }
}

/// Whether cache lines took so different times from core to core that the cores moved meanwhile.
pub(crate) fn is_shaky(hops: impl Iterator<Item = f64>) -> bool {
    let (least, most) = hops
        .fold((f64::MAX, 0.0), |(least, most), hop| (f64::min(least, hop), f64::max(most, hop)));
    most > SHAKY * least
}

/// Near and far differ by more than this, noise by less.
const SHAKY: f64 = 1.6;

#[cfg(test)]
mod tests;
