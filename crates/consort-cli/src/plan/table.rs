//! Predictions for people: a row for each size, or for each number of ranks.

use std::fmt::Write;

use super::record::{Outcome, Record};
use super::units::write_time;
use crate::bench::bytes;

/// What changes from row to row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Bytes,
    Ranks,
}

/// A table of records that differ in one thing only. Each row holds one record for each algorithm,
/// in the order of `names`.
pub(super) fn write(along: Along, names: &[&str], rows: &[&[Record]]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first().and_then(|row| row.first()) else { return text };
    let head = match along {
        Along::Bytes => format!("{} ranks on {} hosts", first.ranks, first.hosts),
        Along::Ranks => bytes::write(first.bytes),
    };
    let _ = writeln!(text, "\n{}, {head}", first.op.name());
    let label = if along == Along::Bytes { "bytes" } else { "ranks" };
    let _ = write!(text, "{label:>9}");
    for name in names {
        let _ = write!(text, "{name:>WIDTH$} ");
    }
    let _ = writeln!(text, "  chosen");
    for row in rows {
        text.push_str(&write_row(along, row));
    }
    text
}

fn write_row(along: Along, row: &[Record]) -> String {
    let label = match along {
        Along::Bytes => bytes::write(row[0].bytes),
        Along::Ranks => row[0].ranks.to_string(),
    };
    let mut text = format!("{label:>9}");
    let seconds = |record: &Record| match record.outcome {
        Outcome::Takes(seconds) => seconds,
        _ => f64::INFINITY,
    };
    let best = row.iter().map(seconds).fold(f64::INFINITY, f64::min);
    for record in row {
        let (cell, mark) = match record.outcome {
            Outcome::Takes(seconds) if seconds <= best => (write_time(seconds), '*'),
            Outcome::Takes(seconds) => (write_time(seconds), ' '),
            Outcome::Unsupported => ("–".to_owned(), ' '),
            Outcome::TooLarge => ("too large".to_owned(), ' '),
        };
        let _ = write!(text, "{cell:>WIDTH$}{mark}");
    }
    let _ = writeln!(text, "  {}", row[0].chosen);
    text
}

const WIDTH: usize = 12;

#[cfg(test)]
mod tests {
    use consort_plan::Collective;

    use super::*;

    #[test]
    fn the_best_is_marked_and_the_chosen_one_named() {
        let record = |algorithm, bytes, outcome, chosen| Record {
            op: Collective::AllReduce,
            algorithm,
            ranks: 8,
            hosts: 2,
            bytes,
            outcome,
            chosen,
        };
        let small = [
            record("ring", 8, Outcome::Takes(3e-4), "doubling"),
            record("bruck", 8, Outcome::Unsupported, "doubling"),
            record("doubling", 8, Outcome::Takes(4.5e-5), "doubling"),
        ];
        let large = [
            record("ring", 1 << 20, Outcome::Takes(1.5e-3), "ring"),
            record("bruck", 1 << 20, Outcome::Unsupported, "ring"),
            record("doubling", 1 << 20, Outcome::TooLarge, "ring"),
        ];
        let text = write(Along::Bytes, &["ring", "bruck", "doubling"], &[&small, &large]);
        insta::assert_snapshot!(text, @"

        all_reduce, 8 ranks on 2 hosts
            bytes        ring        bruck     doubling   chosen
              8 B    300.0 µs            –      45.0 µs*  doubling
            1 MiB     1.50 ms*           –    too large   ring
        ");
    }
}
