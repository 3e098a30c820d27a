//! One chart of a drawing: a line for each of several names, both axes growing by factors.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

/// What is to be drawn, but for the lines.
pub(crate) struct Chart<'a> {
    pub(crate) title: String,
    /// How the numbers along the lower edge are written.
    pub(crate) across: &'a dyn Fn(&f64) -> String,
    /// How those along the left edge are.
    pub(crate) up: &'a dyn Fn(&f64) -> String,
    /// Where there are likely no lines.
    pub(crate) legend: SeriesLabelPosition,
    /// Whether the first line is the one to look for.
    pub(crate) first_is_ours: bool,
}

/// Where it is drawn.
pub(crate) type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

impl Chart<'_> {
    /// Draws a line for each of these names, of points above 0.
    ///
    /// # Errors
    /// When the drawing library refuses, in its words.
    pub(crate) fn draw<'n>(
        &self,
        area: &Area<'_>,
        names: impl Iterator<Item = &'n str>,
        lines: Vec<Vec<(f64, f64)>>,
    ) -> Result<(), String> {
        let all = || lines.iter().flatten();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(68)
            .build_cartesian_2d(
                around(all().map(|point| point.0)).log_scale().base(2.0),
                around(all().map(|point| point.1)).log_scale(),
            )
            .map_err(in_words)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&self.across)
            .y_label_formatter(&self.up)
            .draw()
            .map_err(in_words)?;
        for (at, (line, name)) in lines.into_iter().zip(names).enumerate() {
            let width = if at == 0 && self.first_is_ours { 3 } else { 1 };
            let style = COLOURS[at % COLOURS.len()].stroke_width(width);
            chart
                .draw_series(LineSeries::new(line, style).point_size(3))
                .map_err(in_words)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.8))
            .draw()
            .map_err(in_words)
    }
}

/// An error of the drawing library.
pub(crate) fn in_words(error: impl Display) -> String {
    error.to_string()
}

/// A range with some air around all values.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .fold((f64::INFINITY, 0.0), |(least, most), it| (f64::min(least, it), f64::max(most, it)));
    if least <= most { least / 1.5..most * 1.5 } else { 0.1..1.0 }
}

/// Colours that people with other eyes can tell apart too, after Okabe and Ito, and three more.
const COLOURS: [RGBColor; 10] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(120, 60, 160),
    RGBColor(130, 130, 130),
];
