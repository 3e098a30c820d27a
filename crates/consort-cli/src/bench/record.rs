//! What was measured at one point.

use consort_sys::dtype::{Dtype, ReduceOp};
use serde::{Deserialize, Serialize};

use super::op::Op;
use super::point::Point;
use super::setting::Setting;

/// The times of one implementation at one point: a line of `--json`.
///
/// A block is some calls back to back, about 2 ms of them; its time is from the earliest start to
/// the latest end over ranks, by the number of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Whose collectives.
    #[serde(rename = "impl")]
    pub(crate) name: String,
    /// How the ranks reached each other.
    pub(crate) transport: String,
    /// The operation.
    pub(crate) op: Op,
    /// What the bytes mean.
    pub(crate) dtype: Dtype,
    /// How many ranks.
    pub(crate) ranks: usize,
    /// How many bytes, as nccl-tests counts them.
    pub(crate) bytes: usize,
    /// The median over blocks.
    pub(crate) p50_us: f64,
    /// What 99 of 100 single calls stay below, over all ranks.
    pub(crate) p99_us: f64,
    /// The fastest block.
    pub(crate) min_us: f64,
    /// Bytes per time at the median.
    #[serde(rename = "algbw_GBs")]
    pub(crate) algorithm_bandwidth: f64,
    /// What the slowest link carries per time at the median.
    #[serde(rename = "busbw_GBs")]
    pub(crate) bus_bandwidth: f64,
    /// How long a cache line took from core to core at that moment. It changes on virtual machines,
    /// and everything small changes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hop_us: Option<f64>,
    /// How numbers were combined, if not by their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reduce: Option<String>,
    /// Whether the result went where the input was, because that was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_place: bool,
    /// Whether data was sealed on its way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) encrypted: bool,
    /// Whether the buffers lay in symmetric memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) symmetric: bool,
    /// Whether huge pages were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) huge_pages: bool,
    /// How many hosts the ranks were on, if it was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hosts: Option<usize>,
    /// How many streams there were, if that was tried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) streams: Option<usize>,
}

/// The times alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// The median over blocks.
    pub(crate) p50_us: f64,
    /// What 99 of 100 single calls stay below.
    pub(crate) p99_us: f64,
    /// The fastest block.
    pub(crate) min_us: f64,
}

impl Record {
    /// The record of a point from its times.
    pub(crate) fn new(
        name: &str,
        transport: &str,
        ranks: usize,
        point: &Point,
        figures: Figures,
    ) -> Self {
        let mut record = Self {
            name: name.to_owned(),
            transport: transport.to_owned(),
            op: point.op,
            dtype: point.dtype,
            ranks,
            bytes: point.bytes,
            p50_us: 0.0,
            p99_us: 0.0,
            min_us: 0.0,
            algorithm_bandwidth: 0.0,
            bus_bandwidth: 0.0,
            hop_us: None,
            reduce: None,
            in_place: false,
            encrypted: false,
            symmetric: false,
            huge_pages: false,
            hosts: None,
            streams: None,
        };
        record.set(figures);
        record
    }

    /// The same, with what was asked for beyond the usual. Only our own ranks have symmetric
    /// memory.
    pub(crate) fn asked(mut self, point: &Point, setting: &Setting) -> Self {
        let unusual = point.op.reduces() && point.reduce != ReduceOp::Sum;
        self.reduce = unusual.then(|| point.reduce.to_string());
        self.in_place = point.is_in_place_by_choice();
        self.huge_pages = setting.huge_pages;
        self
    }

    /// The middle one of several measurements of the same point: medians, and the least minimum.
    pub(crate) fn middle(records: &[Self]) -> Option<Self> {
        let mut middle = records.first()?.clone();
        let of = |figure: fn(&Self) -> f64| median(records.iter().map(figure).collect());
        middle.set(Figures {
            p50_us: of(|record| record.p50_us),
            p99_us: of(|record| record.p99_us),
            min_us: records.iter().map(|record| record.min_us).fold(f64::INFINITY, f64::min),
        });
        let hops: Vec<f64> = records.iter().filter_map(|record| record.hop_us).collect();
        middle.hop_us = (!hops.is_empty()).then(|| median(hops));
        let has_median = |record: &&Self| record.p50_us == middle.p50_us;
        middle.streams = records.iter().find(has_median).and_then(|record| record.streams);
        Some(middle)
    }

    fn set(&mut self, figures: Figures) {
        let bandwidth = self.bytes as f64 / figures.p50_us * 1e-3;
        self.p50_us = to_four_places(figures.p50_us);
        self.p99_us = to_four_places(figures.p99_us);
        self.min_us = to_four_places(figures.min_us);
        self.algorithm_bandwidth = to_four_places(bandwidth);
        self.bus_bandwidth = to_four_places(bandwidth * self.op.bus_factor(self.ranks));
    }
}

/// More digits than that are noise.
pub(crate) fn to_four_places(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Of an even number, the upper one of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::point::tests::point;
    use super::super::setting::Transport;
    use super::*;

    pub(crate) fn record(name: &str, op: Op, bytes: usize, p50_us: f64) -> Record {
        let figures = Figures { p50_us, p99_us: p50_us * 2.0, min_us: p50_us * 0.9 };
        Record::new(name, "shm", 2, &point(op, bytes), figures)
    }

    #[test]
    fn a_record_is_one_line_of_json() {
        let figures = Figures { p50_us: 1.0, p99_us: 2.0, min_us: 0.5 };
        let record = Record::new("consort", "shm", 2, &point(Op::AllGather, 1024), figures);
        let line = r#"{"impl":"consort","transport":"shm","op":"all_gather","dtype":"f32","ranks":2,"bytes":1024,"p50_us":1.0,"p99_us":2.0,"min_us":0.5,"algbw_GBs":1.024,"busbw_GBs":0.512}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
        assert_eq!(serde_json::from_str::<Record>(line).unwrap(), record);
    }

    #[test]
    fn a_record_tells_what_is_unusual() {
        let setting = Setting {
            ranks: 2,
            transport: Transport::Auto,
            encrypt: false,
            hosts: 1,
            huge_pages: true,
            symmetric: true,
        };
        let line = |point: &Point| {
            let figures = Figures { p50_us: 1.0, p99_us: 2.0, min_us: 0.5 };
            let record = Record::new("consort", "shm", 2, point, figures).asked(point, &setting);
            let line = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
            line
        };
        let max = |op| Point { reduce: ReduceOp::Max, in_place: true, ..point(op, 8) };
        let unusual = line(&max(Op::AllReduce));
        let fields = r#""busbw_GBs":0.008,"reduce":"max","in_place":true,"huge_pages":true}"#;
        assert!(unusual.ends_with(fields), "{unusual}");
        // It cannot be done otherwise, and nothing is combined.
        let usual = line(&max(Op::Broadcast));
        assert!(usual.ends_with(r#""busbw_GBs":0.008,"huge_pages":true}"#), "{usual}");
    }

    #[test]
    fn the_middle_of_several_is_made_of_medians() {
        let of = |p50, hop_us| Record { hop_us, ..record("x", Op::Broadcast, 8000, p50) };
        let middle =
            Record::middle(&[of(3.0, Some(0.2)), of(1.0, None), of(2.0, Some(0.1))]).unwrap();
        assert_eq!((middle.p50_us, middle.p99_us, middle.min_us), (2.0, 4.0, 0.9));
        assert_eq!((middle.bus_bandwidth, middle.hop_us), (4.0, Some(0.2)));
        let of = |p50, streams| Record { streams, ..record("x", Op::Broadcast, 8000, p50) };
        let middle =
            Record::middle(&[of(3.0, Some(1)), of(1.0, Some(1)), of(2.0, Some(4))]).unwrap();
        assert_eq!(middle.streams, Some(4), "those of the one in the middle");
        assert_eq!(Record::middle(&[]), None);
    }
}
