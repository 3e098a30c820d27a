//! One step on every rank, drawn: a lane for each rank, in it what it computes, and below that its buckets
//! on their way.
//!
//! Where everything goes is decided first ([`Lanes`]), in parts of the width from left to right and in pixels from
//! top to bottom, so that words stay as large as the text around them on any screen.

use std::fmt::Write;

use super::html::Escaped;
use crate::demo::figures::{bytes, time};
use crate::demo::traffic::{Lane, Timeline};
use crate::demo::words::Span;

/// Where everything is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lanes {
    pub(crate) lanes: Vec<Placed>,
    /// Moments, and where they are.
    pub(crate) ticks: Vec<(String, f64)>,
    pub(crate) height: f64,
}

/// A lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) rank: usize,
    pub(crate) top: f64,
    pub(crate) height: f64,
    pub(crate) bars: Vec<Bar>,
}

/// Something that takes time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) kind: Kind,
    /// From 0 to 1.
    pub(crate) left: f64,
    pub(crate) width: f64,
    /// Below the upper edge of the drawing.
    pub(crate) top: f64,
    /// What is written on it, where there is room.
    pub(crate) label: String,
    /// What is said of it when it is pointed at.
    pub(crate) story: String,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its pictures are made.
    Pictures,
    Forward,
    Backward,
    /// Backward has ended, and buckets have not come.
    Wait,
    /// Parameters are changed.
    Update,
    Bucket,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Pictures => "draws",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Wait => "wait",
            Self::Update => "update",
            Self::Bucket => "bucket",
        }
    }
}

impl Lanes {
    /// Finds a place for everything.
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let rows: Vec<Vec<usize>> = timeline.lanes.iter().map(rows).collect();
        let most = rows.iter().flatten().max().map_or(0, |row| row + 1);
        let height = NAME + (most + 1) as f64 * ROW;
        let mut lanes = Vec::new();
        for (number, (lane, rows)) in timeline.lanes.iter().zip(&rows).enumerate() {
            let top = AXIS + number as f64 * (height + GAP);
            let bars = bars(lane, rows, top + NAME, timeline.length);
            lanes.push(Placed { rank: lane.rank, top, height, bars });
        }
        let height = AXIS + lanes.len() as f64 * (height + GAP);
        Self { lanes, ticks: ticks(timeline.length), height }
    }

    /// As SVG.
    pub(crate) fn draw(&self) -> String {
        let mut svg = format!(
            "<svg class=\"lanes\" role=\"img\" aria-label=\"One step on every rank\" width=\"100%\" \
             height=\"{}\">\n",
            self.height
        );
        for Placed { rank, top, height, .. } in &self.lanes {
            let _ = writeln!(
                svg,
                "<rect class=\"ground\" data-rank=\"{rank}\" x=\"0\" y=\"{top}\" width=\"100%\" \
                 height=\"{height}\" rx=\"4\"/>"
            );
        }
        for (moment, part) in &self.ticks {
            let (place, bottom) = (part * 100.0, self.height - GAP);
            let anchor = if *part > 0.95 { "end" } else { "middle" };
            let anchor = if *part < 0.05 { "start" } else { anchor };
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{place:.2}%\" x2=\"{place:.2}%\" y1=\"{AXIS}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{place:.2}%\" y=\"12\" text-anchor=\"{anchor}\">{}</text>",
                Escaped(moment)
            );
        }
        self.lanes.iter().for_each(|lane| lane.draw(&mut svg));
        svg.push_str("</svg>\n");
        svg
    }
}

impl Placed {
    fn draw(&self, svg: &mut String) {
        let Self { rank, top, bars, .. } = self;
        let _ = writeln!(
            svg,
            "<g class=\"lane\" data-rank=\"{rank}\"><text class=\"name\" x=\"6\" y=\"{}\">rank {rank}</text>",
            top + NAME - 6.0
        );
        bars.iter().for_each(|bar| bar.draw(svg));
        svg.push_str("</g>\n");
    }
}

impl Bar {
    fn draw(&self, svg: &mut String) {
        let Self { kind, left, width, top, label, story } = self;
        let class = kind.class();
        let _ = write!(
            svg,
            "<svg class=\"bar {class}\" x=\"{:.3}%\" y=\"{}\" width=\"{:.3}%\" height=\"{TALL}\"><title>{}\
             </title><rect width=\"100%\" height=\"100%\" rx=\"2\"/>",
            left * 100.0,
            top + (ROW - TALL) / 2.0,
            width * 100.0,
            Escaped(story)
        );
        if let Some(room) = room(label, *width) {
            let _ = write!(
                svg,
                "<text class=\"{room}\" x=\"50%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                TALL - 4.5,
                Escaped(label)
            );
        }
        svg.push_str("</svg>\n");
    }
}

/// Whether a bar has room for words on every screen, on large ones, or not at all.
fn room(label: &str, width: f64) -> Option<&'static str> {
    let needed = label.chars().count() as f64 * LETTER + 6.0;
    match width {
        _ if width * NARROW >= needed => Some("always"),
        _ if width * WIDE >= needed => Some("wide"),
        _ => None,
    }
}

fn bars(lane: &Lane, rows: &[usize], top: f64, length: u64) -> Vec<Bar> {
    let length = length.max(1);
    let bar = |kind, span: Span, row: usize, label: &str, story: String| {
        let (from, to) = (span.from.min(length), span.to.min(length));
        let part = |moment: u64| moment as f64 / length as f64;
        let (left, label) = (part(from), label.to_owned());
        // What takes no time at all can be seen, too.
        let width = (part(to) - left).max(THINNEST);
        let left = left.min(1.0 - width);
        Bar { kind, left, width, top: top + row as f64 * ROW, label, story }
    };
    let told = |name: &str, span: Span| format!("{name}: {}", time(span.seconds()));
    let arrived = lane.buckets.iter().map(|bucket| bucket.span.to).max().unwrap_or(0);
    let waited = Span { from: lane.backward.to, to: arrived.max(lane.backward.to) };
    let update = Span { from: waited.to, to: lane.end.max(waited.to) };
    let mut bars = Vec::new();
    let pictures = Span { from: lane.begin, to: lane.forward.from };
    if pictures.to > pictures.from {
        bars.push(bar(
            Kind::Pictures,
            pictures,
            0,
            "pictures",
            told("draws its pictures", pictures),
        ));
    }
    bars.extend([
        bar(Kind::Forward, lane.forward, 0, "forward", told("forward", lane.forward)),
        bar(Kind::Backward, lane.backward, 0, "backward", told("backward", lane.backward)),
    ]);
    if waited.to > waited.from {
        bars.push(bar(Kind::Wait, waited, 0, "waits", told("waits for buckets", waited)));
    }
    if update.to > update.from {
        bars.push(bar(Kind::Update, update, 0, "update", told("changes parameters", update)));
    }
    for (number, (bucket, row)) in lane.buckets.iter().zip(rows).enumerate() {
        let label = bytes(bucket.bytes);
        let name = format!("bucket {number}, {label}, on its way");
        bars.push(bar(Kind::Bucket, bucket.span, row + 1, &label, told(&name, bucket.span)));
    }
    bars
}

/// In which row each bucket is: the first in which it meets no other.
fn rows(lane: &Lane) -> Vec<usize> {
    let mut free: Vec<u64> = Vec::new();
    let mut place = |span: Span| match free.iter().position(|since| *since <= span.from) {
        Some(row) => {
            free[row] = span.to;
            row
        }
        None => {
            free.push(span.to);
            free.len() - 1
        }
    };
    lane.buckets.iter().map(|bucket| place(bucket.span)).collect()
}

/// Round moments, a few of them.
fn ticks(length: u64) -> Vec<(String, f64)> {
    let powers = (3..11).map(|power| 10_u64.pow(power));
    let mut round = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    let between = round.find(|between| length / between <= 5).unwrap_or(length.max(1));
    let moments = (0..=length / between).map(|count| count * between);
    moments.map(|it| (moment(it), it as f64 / length.max(1) as f64)).collect()
}

fn moment(nanos: u64) -> String {
    match nanos {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{} µs", nanos / 1000),
        _ => format!("{} ms", nanos as f64 * 1e-6),
    }
}

/// Room for the moments above all lanes.
const AXIS: f64 = 20.0;
/// Room for a rank's name.
const NAME: f64 = 20.0;
const ROW: f64 = 19.0;
/// How tall a bar is in its row.
const TALL: f64 = 16.0;
const GAP: f64 = 10.0;
const THINNEST: f64 = 0.002;
/// How wide letters are, and the drawing on small screens and on large ones, in pixels.
const LETTER: f64 = 6.2;
const NARROW: f64 = 320.0;
const WIDE: f64 = 640.0;

#[cfg(test)]
mod tests;
