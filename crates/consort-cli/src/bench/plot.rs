//! A drawing of all that was measured: latency and bus bandwidth over size, a line for each
//! implementation, both axes growing by factors.

use plotters::prelude::*;

use super::against::Comparison;
use super::bytes;
use super::record::Record;
use super::table::micros;
use crate::chart::{self, Area, in_words};

/// The sizes of one operation and dtype.
#[derive(Clone, Debug)]
pub(crate) struct Chart<'a> {
    /// What is written above it.
    pub(crate) title: String,
    /// In the order of sizes.
    pub(crate) comparisons: Vec<&'a Comparison>,
}

/// Draws charts below each other.
///
/// # Errors
/// When the drawing library refuses, in its words.
pub(crate) fn draw(names: &[String], charts: &[Chart<'_>]) -> Result<String, String> {
    let drawn: Vec<&Chart<'_>> = charts.iter().filter(|chart| chart.has_sizes()).collect();
    let mut svg = String::new();
    {
        let height = HEIGHT * u32::try_from(drawn.len().max(1)).map_err(in_words)?;
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        whole.fill(&WHITE).map_err(in_words)?;
        for (chart, area) in drawn.iter().zip(whole.split_evenly((drawn.len(), 1))) {
            let (left, right) = area.split_horizontally(WIDTH / 2);
            chart.draw(&left, names, &LATENCY)?;
            chart.draw(&right, names, &BANDWIDTH)?;
        }
        whole.present().map_err(in_words)?;
    }
    Ok(svg)
}

/// One of the two figures that are drawn.
struct Figure {
    label: &'static str,
    of: fn(&Record) -> f64,
    write: fn(&f64) -> String,
}

const LATENCY: Figure =
    Figure { label: "median, µs", of: |record| record.p50_us, write: |time| micros(*time) };

const BANDWIDTH: Figure = Figure {
    label: "bus bandwidth, GB/s",
    // Not the one of the record, which is rounded to what is worth reading.
    of: |record| record.bytes as f64 / record.p50_us * 1e-3 * record.op.bus_factor(record.ranks),
    write: |rate| format!("{rate}"),
};

impl Chart<'_> {
    fn has_sizes(&self) -> bool {
        let mut sizes: Vec<usize> = self.comparisons.iter().map(|it| it.point.bytes).collect();
        sizes.dedup();
        sizes.len() > 1 && !sizes.contains(&0)
    }

    fn draw(&self, area: &Area<'_>, names: &[String], figure: &Figure) -> Result<(), String> {
        let chart = chart::Chart {
            title: format!("{}: {}", self.title, figure.label),
            across: &|size| bytes::write(size.round() as usize),
            up: &figure.write,
            legend: SeriesLabelPosition::LowerRight,
            first_is_ours: true,
        };
        let lines = (0..names.len()).map(|at| self.line(at, figure.of)).collect();
        chart.draw(area, names.iter().map(String::as_str), lines)
    }

    /// One implementation's figures over sizes.
    fn line(&self, at: usize, of: fn(&Record) -> f64) -> Vec<(f64, f64)> {
        let records = self.comparisons.iter().filter_map(|it| it.records.get(at)?.as_ref());
        let points = records.map(|record| (record.bytes as f64, of(record)));
        points.filter(|&(_, figure)| figure > 0.0).collect()
    }
}

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 420;

#[cfg(test)]
mod tests {
    use super::super::op::Op;
    use super::super::point::tests::point;
    use super::super::record::tests::record;
    use super::*;

    fn comparison(op: Op, bytes: usize, times: &[f64]) -> Comparison {
        let names = ["consort", "gloo"];
        let records =
            times.iter().zip(names).map(|(time, name)| Some(record(name, op, bytes, *time)));
        Comparison { point: point(op, bytes), records: records.collect() }
    }

    fn names() -> Vec<String> {
        ["consort", "gloo"].map(str::to_owned).to_vec()
    }

    /// What is written in a drawing, a line for each panel.
    fn words(svg: &str) -> String {
        let texts = svg.split("<text").skip(1).filter_map(|text| {
            let (_, text) = text.split_once(">")?;
            Some(text.split_once("</text>")?.0.trim())
        });
        texts.collect::<Vec<_>>().join(" | ").replace(" | all_reduce", "\nall_reduce")
    }

    #[test]
    fn a_drawing_has_two_panels_with_a_line_for_each() {
        let comparisons = [
            comparison(Op::AllReduce, 8, &[0.1, 250.0]),
            comparison(Op::AllReduce, 1 << 20, &[50.0, 500.0]),
        ];
        let title = "all_reduce f32".to_owned();
        let chart = Chart { title, comparisons: comparisons.iter().collect() };
        let svg = draw(&names(), &[chart]).unwrap();
        insta::assert_snapshot!(words(&svg), @"
        all_reduce f32: median, µs | 0.10 | 1.00 | 10.0 | 100 | 8 B | 32 B | 128 B | 512 B | 2 KiB | 8 KiB | 32 KiB | 128 KiB | 512 KiB | consort | gloo
        all_reduce f32: bus bandwidth, GB/s | 0.0001 | 0.001 | 0.01 | 0.1 | 1 | 10 | 8 B | 32 B | 128 B | 512 B | 2 KiB | 8 KiB | 32 KiB | 128 KiB | 512 KiB | consort | gloo
        ");
        let bold = svg.lines().filter(|line| line.contains("<polyline"));
        let bold = bold.filter(|line| line.contains(r#"stroke-width="3""#)).count();
        assert_eq!(bold, 4, "ours is bold in both panels and in both legends");
    }

    #[test]
    fn what_has_no_sizes_is_not_drawn() {
        let barrier = comparison(Op::Barrier, 0, &[0.1, 250.0]);
        let chart = Chart { title: "barrier".to_owned(), comparisons: vec![&barrier] };
        let svg = draw(&names(), &[chart]).unwrap();
        assert_eq!(words(&svg), "");
    }

    #[test]
    fn one_that_measured_nothing_has_no_line() {
        let comparisons = [comparison(Op::Scatter, 8, &[0.1]), comparison(Op::Scatter, 64, &[0.2])];
        let chart =
            Chart { title: "scatter".to_owned(), comparisons: comparisons.iter().collect() };
        let svg = draw(&names(), &[chart]).unwrap();
        assert!(words(&svg).contains("gloo"));
        assert!(svg.contains("scatter: bus bandwidth"));
    }
}
