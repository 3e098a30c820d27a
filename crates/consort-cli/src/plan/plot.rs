//! Predictions drawn: a chart for each operation, a line for each algorithm, both axes growing by
//! factors.

use plotters::prelude::*;

use super::record::{Outcome, Record};
use super::table::Along;
use super::units::write_time;
use crate::bench::bytes;
use crate::chart::{self, Area, in_words};

/// What belongs into one chart.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) along: Along,
    pub(super) rows: Vec<&'a [Record]>,
}

/// Draws charts two by two.
///
/// # Errors
/// When the drawing library refuses, in its words.
pub(super) fn draw(names: &[&str], charts: &[Chart<'_>]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let columns = charts.len().clamp(1, 2);
        let rows = charts.len().div_ceil(columns).max(1);
        let size = (WIDTH * columns as u32, HEIGHT * rows as u32);
        let whole = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        whole.fill(&WHITE).map_err(in_words)?;
        for (chart, area) in charts.iter().zip(whole.split_evenly((rows, columns))) {
            chart.draw(&area, names)?;
        }
        whole.present().map_err(in_words)?;
    }
    Ok(svg)
}

impl Chart<'_> {
    fn draw(&self, area: &Area<'_>, names: &[&str]) -> Result<(), String> {
        let along = self.along;
        let across = |value: &f64| match along {
            Along::Bytes => bytes::write(value.round() as usize),
            Along::Ranks => format!("{value:.0}"),
        };
        let chart = chart::Chart {
            title: self.title.clone(),
            across: &across,
            up: &|seconds| write_time(*seconds),
            legend: SeriesLabelPosition::UpperLeft,
            first_is_ours: false,
        };
        // An algorithm that has no point is not in the legend either.
        let drawn = |at: &usize| !self.line(*at).is_empty();
        let drawn: Vec<usize> = (0..names.len()).filter(drawn).collect();
        let lines = drawn.iter().map(|&at| self.line(at)).collect();
        chart.draw(area, drawn.iter().map(|&at| names[at]), lines)
    }

    /// One algorithm's times.
    fn line(&self, at: usize) -> Vec<(f64, f64)> {
        let point = |record: &Record| match record.outcome {
            Outcome::Takes(seconds) if seconds > 0.0 => {
                let along = match self.along {
                    Along::Bytes => record.bytes as f64,
                    Along::Ranks => f64::from(record.ranks),
                };
                Some((along, seconds))
            }
            _ => None,
        };
        self.rows.iter().filter_map(|row| point(row.get(at)?)).filter(|it| it.0 > 0.0).collect()
    }
}

const WIDTH: u32 = 640;
const HEIGHT: u32 = 420;
