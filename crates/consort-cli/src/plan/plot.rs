//! Predictions drawn: a chart for each operation, a line for each algorithm, both axes growing by
//! factors.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::record::{Outcome, Record};
use super::table::Along;
use super::units::write_time;
use crate::bench::bytes;

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
    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        names: &[&str],
    ) -> Result<(), String> {
        let lines: Vec<Vec<(f64, f64)>> = (0..names.len()).map(|at| self.line(at)).collect();
        let all = || lines.iter().flatten();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(
                around(all().map(|point| point.0)).log_scale().base(2.0),
                around(all().map(|point| point.1)).log_scale(),
            )
            .map_err(in_words)?;
        let along = self.along;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|value| match along {
                Along::Bytes => bytes::write(value.round() as usize),
                Along::Ranks => format!("{value:.0}"),
            })
            .y_label_formatter(&|seconds| write_time(*seconds))
            .draw()
            .map_err(in_words)?;
        for (at, (line, name)) in lines.into_iter().zip(names).enumerate() {
            if line.is_empty() {
                continue;
            }
            let style = COLOURS[at % COLOURS.len()].stroke_width(2);
            chart
                .draw_series(LineSeries::new(line, style).point_size(2))
                .map_err(in_words)?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()
            .map_err(in_words)
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

/// A range with some air around all values.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .fold((f64::INFINITY, 0.0), |(least, most), it| (f64::min(least, it), f64::max(most, it)));
    if least <= most { least / 1.5..most * 1.5 } else { 0.1..1.0 }
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Colours that people with other eyes can tell apart too, after Okabe and Ito, and three more.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(240, 228, 66),
    RGBColor(120, 60, 160),
    RGBColor(130, 130, 130),
];

const WIDTH: u32 = 640;
const HEIGHT: u32 = 420;
