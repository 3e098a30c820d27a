//! Figures for people: one table for each operation and dtype.

use std::fmt::Write;

use super::against::Comparison;
use super::bytes;
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
        if !peers.is_empty() {
            let _ = write!(text, "  {}", self.ratio(comparison));
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
        if self.names.len() > 1 {
            let _ = write!(line, "  {:>6}", "ratio");
        }
        line
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
    words.push(ranks(record.ranks));
    words.push(record.transport.clone());
    let any = |has: fn(&Record) -> bool| comparison.records.iter().flatten().any(has);
    let unusual = [
        (point.is_in_place_by_choice(), "in place"),
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
    record.map_or("–".to_owned(), |record| micros(record.p50_us))
}

fn width(name: &str) -> usize {
    name.len().max(7)
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

fn with_commas(number: u64) -> String {
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
mod tests {
    use consort_sys::dtype::ReduceOp;

    use super::super::op::Op;
    use super::super::point::Point;
    use super::super::point::tests::point;
    use super::super::record::tests::record;
    use super::*;

    fn comparison(op: Op, bytes: usize, times: &[f64]) -> Comparison {
        let point = Point { in_place: op == Op::AllReduce, ..point(op, bytes) };
        let records = times
            .iter()
            .zip(["consort", "gloo", "intelmpi"])
            .map(|(time, name)| time.is_finite().then(|| record(name, op, bytes, *time)));
        Comparison { point, records: records.collect() }
    }

    fn shown(comparisons: &[Comparison], peers: &[&str], colours: bool) -> String {
        let names = [&["consort"], peers].concat().into_iter().map(str::to_owned).collect();
        let mut table = Table::new(names, colours);
        comparisons.iter().map(|comparison| table.row(comparison)).collect()
    }

    #[test]
    fn a_table_shows_ours_in_full_and_peers_with_the_ratio() {
        let comparisons = [
            comparison(Op::AllReduce, 8, &[0.0912, 252.4, 0.31]),
            comparison(Op::AllReduce, 1 << 20, &[54.0, 500.0, 45.0]),
            comparison(Op::AllReduce, 64 << 20, &[6700.0, f64::NAN, 22_512.0]),
            comparison(Op::Barrier, 0, &[f64::NAN, 100.0, 0.2]),
        ];
        insta::assert_snapshot!(shown(&comparisons, &["gloo", "intelmpi"], false), @r"

        all_reduce f32 sum, 2 ranks, shm, in place; µs
            bytes       p50       p99       min  bus GB/s     gloo  intelmpi   ratio
              8 B      0.09      0.18      0.08    0.0877      252      0.31    3.40
            1 MiB      54.0       108      48.6      19.4      500      45.0    0.83
           64 MiB     6,700    13,400     6,030      10.0        –    22,512    3.36

        barrier, 2 ranks, shm; µs
            bytes       p50       p99       min  bus GB/s     gloo  intelmpi   ratio
              0 B         –         –         –         –      100      0.20       –
        ");
    }

    #[test]
    fn a_heading_says_what_is_unusual() {
        let mut comparison = comparison(Op::AllReduce, 8, &[1.0, 2.0]);
        comparison.point.reduce = ReduceOp::PremulSum(0.5);
        for (record, symmetric) in comparison.records.iter_mut().flatten().zip([true, false]) {
            (record.symmetric, record.huge_pages) = (symmetric, true);
        }
        let words = "all_reduce f32 premul_sum:0.5, 2 ranks, shm, in place, symmetric, huge pages";
        let shown = shown(&[comparison], &["gloo"], false);
        assert!(shown.starts_with(&format!("\n{words}; µs\n")), "{shown}");
    }

    #[test]
    fn a_p99_below_p50_is_marked() {
        let mut odd = comparison(Op::Broadcast, 1024, &[0.5]);
        for record in odd.records.iter_mut().flatten() {
            (record.p99_us, record.ranks) = (0.2, 1);
        }
        insta::assert_snapshot!(shown(&[odd], &[], false), @r"

        broadcast f32, 1 rank, shm; µs
            bytes       p50       p99       min  bus GB/s
            1 KiB      0.50     0.20*      0.45      2.05
        ");
    }

    #[test]
    fn alone_there_are_neither_peers_nor_a_ratio() {
        let comparisons = [comparison(Op::Broadcast, 1024, &[0.5])];
        insta::assert_snapshot!(shown(&comparisons, &[], false), @r"

        broadcast f32, 2 ranks, shm; µs
            bytes       p50       p99       min  bus GB/s
            1 KiB      0.50      1.00      0.45      2.05
        ");
    }

    #[test]
    fn colours_tell_faster_from_slower() {
        let fast = shown(&[comparison(Op::Scatter, 8, &[1.0, 2.0])], &["gloo"], true);
        assert!(fast.contains("\x1b[32m  2.00\x1b[0m"), "{fast:?}");
        let slow = shown(&[comparison(Op::Scatter, 8, &[2.0, 1.0])], &["gloo"], true);
        assert!(slow.contains("\x1b[31m  0.50\x1b[0m"), "{slow:?}");
    }

    #[test]
    fn a_ratio_of_measurements_that_cannot_be_compared_is_marked() {
        let mut shaky = comparison(Op::Scatter, 8, &[1.0, 2.0]);
        for (record, hop) in shaky.records.iter_mut().flatten().zip([0.05, 0.19]) {
            record.hop_us = Some(hop);
        }
        assert!(shown(&[shaky], &["gloo"], false).ends_with("2.00 ~\n"));
    }
}
