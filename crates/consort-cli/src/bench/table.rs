//! Figures for people: one table for each operation and dtype.

use std::fmt::Write;

use super::against::Comparison;
use super::bytes;
use super::raw;
use super::record::Record;

/// Writes tables row by row, with a heading whenever the operation or the dtype changes.
#[derive(Debug)]
pub(crate) struct Table {
    names: Vec<String>,
    colours: bool,
    heading: Option<String>,
}

impl Table {
    /// For these implementations; ours is the first.
    pub(crate) fn new(names: Vec<String>, colours: bool) -> Self {
        Self { names, colours, heading: None }
    }

    /// The lines that show a comparison.
    pub(crate) fn row(&mut self, comparison: &Comparison) -> String {
        let mut text = String::new();
        let heading = heading(comparison);
        if self.heading.as_ref() != Some(&heading) {
            let _ = write!(text, "\n{}\n{}\n", self.bold(&heading), self.columns());
            self.heading = Some(heading);
        }
        let _ = write!(text, "{:>9}", bytes::write(comparison.point.bytes));
        let (ours, peers) = comparison.records.split_first().expect("ours is always there");
        text.push_str(&our_figures(ours.as_ref()));
        for (record, name) in peers.iter().zip(&self.names[1..]) {
            let _ = write!(text, "  {:>1$}", median_of(record.as_ref()), width(name));
        }
        if self.has_peers() {
            let _ = write!(text, "  {}", self.ratio(comparison));
        }
        if self.has_raw() {
            let _ = write!(text, "  {:>6}", part_of_raw(comparison));
        }
        text.push('\n');
        text
    }

    fn columns(&self) -> String {
        let mut line =
            format!("{:>9}{:>10}{:>10}{:>10}{:>10}", "bytes", "p50", "p99", "min", "bus GB/s");
        for name in &self.names[1..] {
            let _ = write!(line, "  {name:>0$}", width(name));
        }
        if self.has_peers() {
            let _ = write!(line, "  {:>6}", "ratio");
        }
        if self.has_raw() {
            let _ = write!(line, "  {:>6}", "of raw");
        }
        line
    }

    fn has_peers(&self) -> bool {
        self.names[1..].iter().any(|name| name != raw::NAME)
    }

    fn has_raw(&self) -> bool {
        self.names.iter().any(|name| name == raw::NAME)
    }

    fn ratio(&self, comparison: &Comparison) -> String {
        let Some(ratio) = comparison.ratio() else { return format!("{:>6}", "–") };
        let digits = if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") };
        let mark = if comparison.is_shaky() { " ~" } else { "" };
        let text = format!("{digits:>6}{mark}");
        match (self.colours, ratio >= 1.0) {
            (false, _) => text,
            (true, true) => format!("\x1b[32m{text}\x1b[0m"),
            (true, false) => format!("\x1b[31m{text}\x1b[0m"),
        }
    }

    fn bold(&self, text: &str) -> String {
        if self.colours { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn heading(comparison: &Comparison) -> String {
    let point = &comparison.point;
    let Some(record) = comparison.records.iter().flatten().next() else {
        return point.op.to_string();
    };
    let mut words = vec![point.op.to_string()];
    if point.bytes > 0 {
        words[0] += &format!(" {}", point.dtype);
    }
    if point.op.reduces() {
        words[0] += &format!(" {}", point.reduce);
    }
    let hosts = record.hosts.map_or_else(String::new, |hosts| format!(" on {hosts} hosts"));
    words.push(ranks(record.ranks) + &hosts);
    words.push(record.transport.clone());
    let any = |has: fn(&Record) -> bool| comparison.records.iter().flatten().any(has);
    let unusual = [
        (point.is_in_place_by_choice(), "in place"),
        (any(|record| record.encrypted), "encrypted"),
        (any(|record| record.symmetric), "symmetric"),
        (any(|record| record.huge_pages), "huge pages"),
    ];
    words.extend(unusual.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| (*word).to_owned()));
    words.join(", ") + "; µs"
}

fn our_figures(record: Option<&Record>) -> String {
    let Some(record) = record else {
        return format!("{:>10}", "–").repeat(4);
    };
    let times = [record.p50_us, record.p99_us, record.min_us].map(micros);
    let mark = if record.p99_us < record.p50_us { "*" } else { "" };
    let p99 = format!("{}{mark}", times[1]);
    let bandwidth =
        if record.bytes == 0 { "–".to_owned() } else { gigabytes(record.bus_bandwidth) };
    format!("{:>10}{p99:>10}{:>10}{bandwidth:>10}", times[0], times[2])
}

fn median_of(record: Option<&Record>) -> String {
    let Some(record) = record else { return "–".to_owned() };
    let streams = record.streams.map_or_else(String::new, |streams| format!(" x{streams}"));
    micros(record.p50_us) + &streams
}

fn part_of_raw(comparison: &Comparison) -> String {
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    comparison.part_of_raw().map_or("–".to_owned(), percent)
}

fn width(name: &str) -> usize {
    let least = if name == raw::NAME { 10 } else { 7 };
    name.len().max(least)
}

/// How many there are.
pub(crate) fn ranks(count: usize) -> String {
    if count == 1 { "1 rank".to_owned() } else { format!("{count} ranks") }
}

/// Three digits or so, and all of those before the point.
pub(crate) fn micros(time: f64) -> String {
    match time {
        ..10.0 => format!("{time:.2}"),
        10.0..100.0 => format!("{time:.1}"),
        _ => with_commas(time.round() as u64),
    }
}

fn gigabytes(rate: f64) -> String {
    match rate {
        ..0.1 => format!("{rate:.4}"),
        0.1..10.0 => format!("{rate:.2}"),
        _ => format!("{rate:.1}"),
    }
}

/// Groups of three digits.
pub(crate) fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|it| std::str::from_utf8(it).expect("digits"))
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests;
