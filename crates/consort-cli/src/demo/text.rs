//! The summary for people.

use std::fmt::Write;

use super::args::Setting;
use super::digits::Set;
use super::figures::{bytes, count, gigabytes, percent, time};
use super::rows::{self, Row};
use super::summary::{Check, Summary};

/// Before it begins: who learns what.
pub(crate) fn introduction(setting: Setting, seed: u64) -> String {
    let Setting { cores, ranks, threads } = setting;
    let (training, tests) = (count(Set::Training.len() as f64), count(Set::Test.len() as f64));
    format!(
        "{} learn to read digits: {training} pictures to learn from, {tests} kept back, drawn from seed \
         {seed}\n{}: {} for each process",
        self::ranks(ranks),
        self::cores(cores),
        self::threads(threads)
    )
}

/// In the end: what came of it.
pub(crate) fn summary(summary: &Summary, is_coloured: bool) -> String {
    let mut text = String::new();
    for line in table(summary) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(traffic) = traffic(summary) {
        let _ = writeln!(text, "\n{traffic}");
    }
    if let Some(failure) = &summary.failure {
        text.push('\n');
        for line in failure.sentences() {
            let _ = writeln!(text, "{line}");
        }
    }
    text.push('\n');
    for check in &summary.checks {
        let _ = writeln!(text, "{}", check_line(check, is_coloured));
    }
    text
}

/// `1 rank`, `2 ranks`.
pub(crate) fn ranks(count: usize) -> String {
    if count == 1 { "1 rank".to_owned() } else { format!("{count} ranks") }
}

/// `1 core`, `2 cores`.
pub(crate) fn cores(count: usize) -> String {
    if count == 1 { "1 core".to_owned() } else { format!("{count} cores") }
}

/// `1 thread`, `2 threads`.
pub(crate) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn table(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let head = summary.alone.as_ref().map(|_| "one process".to_owned());
    let results = rows::results(summary)
        .into_iter()
        .map(|Row { name, ranks, alone, .. }| (name, ranks.shown, alone.map(|alone| alone.shown)));
    for (name, ours, alone) in [("", ranks(summary.ranks), head)].into_iter().chain(results) {
        let alone = alone.map_or_else(String::new, |alone| format!("{alone:>14}"));
        lines.push(format!("{name:<28}{ours:>12}{alone}"));
    }
    if let Some(speedup) = summary.speedup {
        lines.push(format!("{:<28}{speedup:>12.2}", "speed-up"));
    }
    lines
}

fn traffic(summary: &Summary) -> Option<String> {
    let traffic = summary.traffic.as_ref()?;
    let ms = |millis: f64| time(millis * 1e-3);
    Some(format!(
        "gradients: {} in {} buckets\n  on their way {} of each step of {} ({}), bus bandwidth {}\n  hidden \
         behind backward {} of that ({}), exposed {}",
        bytes(traffic.bytes),
        traffic.buckets,
        ms(traffic.communication_ms),
        ms(traffic.step_ms),
        percent(traffic.share),
        gigabytes(traffic.bus),
        ms(traffic.hidden_ms),
        percent(traffic.hidden_share),
        ms(traffic.exposed_ms)
    ))
}

fn check_line(check: &Check, is_coloured: bool) -> String {
    let Check { name, passed, found } = check;
    let (mark, colour) = if *passed { ("✓", "32") } else { ("✗", "31") };
    match is_coloured {
        true => format!("\x1b[{colour}m{mark}\x1b[0m {name}: {found}"),
        false => format!("{mark} {name}: {found}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::summary as example;
    use super::super::traffic::Traffic;
    use super::super::traffic::tests::history;
    use super::*;

    #[test]
    fn everything_is_said_in_words() {
        let found = Summary { traffic: Traffic::of(&history()), ..example() };
        insta::assert_snapshot!(summary(&found, false), @"
                                         2 ranks   one process
        time to learn                      6.0 s         9.0 s
        samples/s                            128            85
        loss in the first step            2.4000        2.4000
        loss in the last steps            1.1000        1.1000
        loss on pictures kept back        0.5000        0.5000
        of these read rightly            99.90 %       99.90 %
        speed-up                            1.50

        gradients: 4 KiB in 2 buckets
          on their way 3.90 ms of each step of 13.0 ms (30 %), bus bandwidth 0.0010 GB/s
          hidden behind backward 2.60 ms of that (67 %), exposed 1.30 ms

        ✓ parameters are the same on all ranks, bit by bit: compared by 2 ranks
        ✓ the loss is that of one process: they differ by 5.0e-5 on average and 5.0e-5 at most; up to 0.001 on average is put down to rounding
        ✓ pictures that were kept back are read: 99.90 % of 1000 are read rightly
        ");
        assert!(summary(&found, true).contains("\x1b[32m✓\x1b[0m parameters"));
    }

    #[test]
    fn without_comparison_there_is_one_column() {
        let found = Summary { alone: None, speedup: None, ..example() };
        let text = summary(&found, false);
        assert!(!text.contains("one process ") && !text.contains("speed-up"), "{text}");
    }

    #[test]
    fn who_learns_what_is_said_before() {
        let setting = Setting { cores: 2, ranks: 2, threads: 1 };
        insta::assert_snapshot!(introduction(setting, 7), @"
        2 ranks learn to read digits: 20,000 pictures to learn from, 1,000 kept back, drawn from seed 7
        2 cores: 1 thread for each process
        ");
    }
}
