//! Losses over steps, drawn.
//!
//! The lines are in a drawing of their own that is stretched to the width there is; words and ticks are
//! placed by parts of the width, and so stay as large as the text around them.

use std::fmt::Write;

use super::html::Escaped;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curves<'a> {
    /// The ranks' losses.
    pub(crate) ranks: &'a [f64],
    /// Those of one process.
    pub(crate) alone: Option<&'a [f64]>,
    /// After which step somebody was killed, and who.
    pub(crate) killed: Option<(usize, usize)>,
}

impl Curves<'_> {
    /// As SVG.
    pub(crate) fn draw(&self) -> String {
        let height = Height::of(self.ranks.iter().chain(self.alone.into_iter().flatten()));
        let mut svg = format!(
            "<svg class=\"curves\" role=\"img\" aria-label=\"Loss of each step\" width=\"100%\" \
             height=\"{}\">\n",
            TOP + TALL + BOTTOM
        );
        for (value, place) in height.ticks() {
            let y = TOP + place * TALL;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"0\" y=\"{:.1}\">{value}</text>",
                y - 4.0
            );
        }
        for step in steps(self.ranks.len()) {
            let part = self.across(step);
            let anchor = if part > 0.97 { "end" } else { "middle" };
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.2}%\" y=\"{:.1}\" text-anchor=\"{anchor}\">{step}</text>",
                part * 100.0,
                TOP + TALL + 16.0
            );
        }
        if let Some((step, rank)) = self.killed {
            svg.push_str(&self.mark(step, rank));
        }
        let _ = writeln!(
            svg,
            "<svg y=\"{TOP}\" width=\"100%\" height=\"{TALL}\" viewBox=\"0 0 {SCALE} {SCALE}\" \
             preserveAspectRatio=\"none\">"
        );
        if let Some(alone) = self.alone {
            svg.push_str(&self.line("alone", alone, &height));
        }
        svg.push_str(&self.line("ranks", self.ranks, &height));
        svg.push_str("</svg>\n</svg>\n");
        svg
    }

    fn line(&self, class: &str, losses: &[f64], height: &Height) -> String {
        let mut line = format!("<polyline class=\"{class}\" points=\"");
        for (at, loss) in losses.iter().enumerate() {
            let (x, y) = (self.across(at + 1) * SCALE, height.place(*loss) * SCALE);
            let _ = write!(line, "{x:.1},{y:.1} ");
        }
        line.push_str("\"/>\n");
        line
    }

    fn mark(&self, step: usize, rank: usize) -> String {
        let part = self.across(step);
        let (anchor, shift) = if part > 0.6 { ("end", -6) } else { ("start", 6) };
        let text = format!("rank {rank} is killed");
        format!(
            "<line class=\"killed\" x1=\"{0:.2}%\" x2=\"{0:.2}%\" y1=\"{TOP}\" y2=\"{1}\"/>\
             <text class=\"killed\" x=\"{0:.2}%\" dx=\"{shift}\" y=\"{2}\" text-anchor=\"{anchor}\">{3}</text>\n",
            part * 100.0,
            TOP + TALL,
            TOP + 12.0,
            Escaped(text)
        )
    }

    /// Where a step is, from 0 to 1.
    fn across(&self, step: usize) -> f64 {
        step as f64 / self.ranks.len().max(1) as f64
    }
}

/// From the largest loss down to the least, by factors.
#[derive(Clone, Copy, Debug)]
struct Height {
    least: f64,
    most: f64,
}

impl Height {
    fn of<'a>(losses: impl Iterator<Item = &'a f64>) -> Self {
        let sound = losses.copied().filter(|loss| loss.is_finite() && *loss > 0.0);
        let (least, most) = sound
            .fold((f64::MAX, 0.0), |(least, most), it| (f64::min(least, it), f64::max(most, it)));
        let (least, most) = if least <= most { (least, most) } else { (0.1, 1.0) };
        Self { least: (least / 1.2).max(LEAST), most: (most * 1.2).max(2.0 * LEAST) }
    }

    /// 0 is above, 1 below. A loss that is no number is above.
    fn place(&self, loss: f64) -> f64 {
        let part =
            (self.most / loss.clamp(self.least, self.most)).ln() / (self.most / self.least).ln();
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round numbers in between.
    fn ticks(&self) -> Vec<(String, f64)> {
        let powers = (-6..=3).map(|power| 10_f64.powi(power));
        let round = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power));
        let inside: Vec<f64> = round.filter(|it| (self.least..=self.most).contains(it)).collect();
        // Where there are many, only the powers of ten.
        let is_shown = |value: &f64| {
            inside.len() <= MOST_TICKS || (value.log10().round() - value.log10()).abs() < 1e-9
        };
        inside
            .iter()
            .filter(|it| is_shown(it))
            .map(|it| (format!("{it}"), self.place(*it)))
            .collect()
    }
}

/// A few round numbers up to the last step.
fn steps(last: usize) -> Vec<usize> {
    let between = [1, 2, 5, 10, 20, 50, 100, 200, 500];
    let scales = [1, 1000, 1_000_000];
    let all = scales.iter().flat_map(|scale| between.iter().map(move |step| step * scale));
    let between = all.into_iter().find(|step| last / step <= 5).unwrap_or(last.max(1));
    (1..=last / between).map(|count| count * between).collect()
}

/// How tall the lines are, with room above and below for words.
const TALL: f64 = 220.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 24.0;
/// The lines' own drawing is so many wide and high, whatever it is stretched to.
const SCALE: f64 = 1000.0;
const LEAST: f64 = 1e-6;
const MOST_TICKS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_losses_are_lower_and_later_steps_further_right() {
        let curves = Curves { ranks: &[2.0, 1.0, 0.5, 0.25], alone: None, killed: None };
        let height = Height::of(curves.ranks.iter());
        let places: Vec<f64> = curves.ranks.iter().map(|loss| height.place(*loss)).collect();
        assert!(places.is_sorted() && places[0] > 0.0 && places[3] < 1.0, "{places:?}");
        let gaps: Vec<f64> = places.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(
            gaps.iter().all(|gap| (gap - gaps[0]).abs() < 1e-9),
            "halves are equally far apart"
        );
        assert_eq!((curves.across(1), curves.across(4)), (0.25, 1.0));
    }

    #[test]
    fn ticks_are_round_and_few() {
        let height = Height { least: 0.03, most: 2.5 };
        let ticks: Vec<String> = height.ticks().into_iter().map(|(value, _)| value).collect();
        assert_eq!(ticks, ["0.05", "0.1", "0.2", "0.5", "1", "2"]);
        let wide = Height { least: 1e-5, most: 2.5 };
        let ticks: Vec<String> = wide.ticks().into_iter().map(|(value, _)| value).collect();
        assert_eq!(ticks, ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(steps(240), [50, 100, 150, 200]);
        assert_eq!(steps(3), [1, 2, 3]);
        assert_eq!(steps(1_000_000), [200_000, 400_000, 600_000, 800_000, 1_000_000]);
    }

    #[test]
    fn losses_that_are_no_numbers_stay_inside() {
        let losses = [f64::NAN, f64::INFINITY, 0.0, -1.0];
        let svg = Curves { ranks: &losses, alone: Some(&[1.0; 4]), killed: Some((2, 1)) }.draw();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let none = Curves { ranks: &[], alone: None, killed: None }.draw();
        assert!(!none.contains("NaN"), "{none}");
    }
}
