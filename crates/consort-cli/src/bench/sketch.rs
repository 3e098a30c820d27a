//! A small drawing for the terminal: latency over size, both growing by factors.

use super::against::Comparison;
use super::bytes;
use super::table::micros;

/// Draws the sizes of one operation, a letter for each implementation. Nothing for fewer than two
/// sizes.
pub(crate) fn draw(names: &[String], comparisons: &[&Comparison]) -> String {
    let points: Vec<Dot> = comparisons.iter().flat_map(|it| dots(names, it)).collect();
    let Some(frame) = Frame::around(&points) else { return String::new() };
    let mut grid = vec![vec![' '; COLUMNS]; ROWS];
    for dot in &points {
        let cell = &mut grid[frame.row(dot.micros)][frame.column(dot.bytes)];
        *cell = if matches!(*cell, ' ') || *cell == dot.letter { dot.letter } else { '*' };
    }
    let mut text = String::new();
    for (row, cells) in grid.iter().enumerate() {
        let label = match row {
            0 => micros(frame.slowest),
            _ if row == ROWS - 1 => micros(frame.fastest),
            _ => String::new(),
        };
        let line: String = cells.iter().collect();
        text += &format!("{label:>9} │{}\n", line.trim_end());
    }
    let (from, to) = (bytes::write(frame.least), bytes::write(frame.most));
    let axis = "─".repeat(COLUMNS);
    let gap = COLUMNS - from.len();
    text += &format!("{:>9} └{axis}\n{:>11}{from}{to:>gap$}\n", "µs", "");
    text + &format!("{:>11}{}, * several\n", "", legend(names))
}

struct Dot {
    letter: char,
    bytes: usize,
    micros: f64,
}

fn dots<'a>(names: &'a [String], comparison: &'a Comparison) -> impl Iterator<Item = Dot> + 'a {
    comparison.records.iter().zip(names).filter_map(|(record, name)| {
        let record = record.as_ref()?;
        Some(Dot { letter: letter(name), bytes: record.bytes, micros: record.p50_us })
    })
}

fn letter(name: &str) -> char {
    name.chars().next().unwrap_or('?')
}

fn legend(names: &[String]) -> String {
    let each: Vec<String> = names.iter().map(|name| format!("{} {name}", letter(name))).collect();
    each.join(", ")
}

/// What the corners of the drawing stand for.
struct Frame {
    least: usize,
    most: usize,
    fastest: f64,
    slowest: f64,
}

impl Frame {
    fn around(dots: &[Dot]) -> Option<Self> {
        let sizes = || dots.iter().map(|dot| dot.bytes);
        let times = || dots.iter().map(|dot| dot.micros);
        let (least, most) = (sizes().min()?, sizes().max()?);
        let fastest = times().fold(f64::INFINITY, f64::min);
        let slowest = times().fold(0.0, f64::max);
        (0 < least && least < most).then_some(Self { least, most, fastest, slowest })
    }

    fn column(&self, bytes: usize) -> usize {
        let part = share(self.least as f64, self.most as f64, bytes as f64);
        (part * (COLUMNS - 1) as f64).round() as usize
    }

    fn row(&self, micros: f64) -> usize {
        let part = share(self.fastest, self.slowest, micros);
        ROWS - 1 - (part * (ROWS - 1) as f64).round() as usize
    }
}

/// Where between two numbers a third one lies, counted in factors.
fn share(from: f64, to: f64, value: f64) -> f64 {
    if to > from { (value / from).ln() / (to / from).ln() } else { 0.0 }
}

const ROWS: usize = 10;
const COLUMNS: usize = 60;

#[cfg(test)]
mod tests {
    use super::super::op::Op;
    use super::super::point::tests::point;
    use super::super::record::tests::record;
    use super::*;

    fn comparison(bytes: usize, times: [f64; 2]) -> Comparison {
        let names = ["consort", "gloo"];
        let record = |at: usize| record(names[at], Op::AllReduce, bytes, times[at]);
        let records = vec![Some(record(0)), Some(record(1))];
        Comparison { point: point(Op::AllReduce, bytes), records }
    }

    fn names() -> Vec<String> {
        ["consort", "gloo"].map(str::to_owned).to_vec()
    }

    #[test]
    fn latencies_are_drawn_over_sizes() {
        let comparisons = [
            comparison(8, [0.1, 250.0]),
            comparison(1024, [0.15, 260.0]),
            comparison(1 << 20, [50.0, 500.0]),
            comparison(16 << 20, [12_000.0, 12_400.0]),
        ];
        let refs: Vec<&Comparison> = comparisons.iter().collect();
        insta::assert_snapshot!(draw(&names(), &refs), @"
           12,400 │                                                           *
                  │
                  │                                                g
                  │g                   g
                  │                                                c
                  │
                  │
                  │
                  │
             0.10 │c                   c
               µs └────────────────────────────────────────────────────────────
                   8 B                                                   16 MiB
                   c consort, g gloo, * several
        ");
    }

    #[test]
    fn one_size_alone_makes_no_drawing() {
        assert_eq!(draw(&names(), &[&comparison(8, [1.0, 2.0])]), "");
        assert_eq!(draw(&names(), &[]), "");
    }

    #[test]
    fn times_that_do_not_differ_are_drawn_too() {
        let (small, large) = (comparison(8, [1.0, 1.0]), comparison(64, [1.0, 1.0]));
        assert!(draw(&names(), &[&small, &large]).contains("1.00 │*"));
    }
}
