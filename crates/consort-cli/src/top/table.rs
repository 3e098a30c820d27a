//! Rows in words.

use std::fmt::Write;

use super::rows::Row;
use crate::trace::JobTrace;

/// What stands above the columns.
pub(super) const HEAD: [&str; 6] = ["rank", "calls/s", "bytes/s", "waiting", "awaited", "doing"];

/// What stands above all.
pub(super) fn title(job: &JobTrace) -> String {
    let first = &job.ranks[0];
    let alive = job.ranks.iter().filter(|rank| rank.is_alive).count();
    let state = if job.is_running() { "running" } else { "ended" };
    format!("job {}, {state}: {alive} of {} ranks alive here", first.job, first.world)
}

/// A row's cells, in the order of the [`HEAD`].
pub(super) fn cells(row: &Row) -> [String; 6] {
    [
        row.rank.to_string(),
        rate(row.calls, ""),
        rate(row.bytes, "B"),
        format!("{:.0}%", row.waiting * 100.0),
        format!("{:.0}%", row.awaited * 100.0),
        row.doing.clone(),
    ]
}

/// All rows, as plain text.
pub(super) fn write(rows: &[Row]) -> String {
    let mut text = String::new();
    let head = HEAD.map(str::to_owned);
    for cells in std::iter::once(head).chain(rows.iter().map(cells)) {
        let [rank, calls, bytes, waiting, awaited, doing] = cells;
        let _ =
            writeln!(text, "{rank:>4} {calls:>9} {bytes:>9} {waiting:>8} {awaited:>8}  {doing}");
    }
    text
}

/// `950`, `12.5k`, `3.2MB`.
fn rate(number: f64, unit: &str) -> String {
    let units = ["", "k", "M", "G", "T"];
    let mut number = number;
    let mut step = 0;
    while number >= 1000.0 && step + 1 < units.len() {
        number /= 1000.0;
        step += 1;
    }
    match step {
        0 => format!("{number:.0}{unit}"),
        _ => format!("{number:.1}{}{unit}", units[step]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_unit_that_suits_them() {
        assert_eq!(rate(950.0, ""), "950");
        assert_eq!(rate(12_500.0, ""), "12.5k");
        assert_eq!(rate(3_200_000.0, "B"), "3.2MB");
        assert_eq!(rate(5e18, "B"), "5000000.0TB");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let doing = "in call 2 of world".to_owned();
        let row = Row { rank: 7, calls: 4.0, bytes: 2048.0, waiting: 0.5, awaited: 1.25, doing };
        insta::assert_snapshot!(write(&[row]), @r"
        rank   calls/s   bytes/s  waiting  awaited  doing
           7         4     2.0kB      50%     125%  in call 2 of world
        ");
    }
}
