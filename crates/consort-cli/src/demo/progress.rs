//! How far a run has come, in one line: pure.

use std::time::Duration;

use super::figures::{self, count, percent};
use super::history::History;
use super::words::Task;

/// How it goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    /// Who learns.
    pub(crate) who: String,
    pub(crate) step: usize,
    pub(crate) steps: usize,
    pub(crate) loss: f64,
    /// Pictures in a second.
    pub(crate) rate: f64,
    /// How much of the time gradients were on their way, and how much of that was hidden.
    pub(crate) communicating: Option<(f64, f64)>,
    pub(crate) left: Duration,
}

impl Progress {
    /// After the last steps; `None` before the first one is done.
    pub(crate) fn of(who: &str, history: &History, task: Task) -> Option<Self> {
        let step = history.steps();
        let recent = step.saturating_sub(RECENT);
        let late = || history.every_step().filter(|it| it.number >= recent);
        let from = late().map(|step| step.span.from).min()?;
        let to = late().map(|step| step.span.to).max()?;
        let seconds = to.saturating_sub(from) as f64 * 1e-9;
        let rate = (step - recent) as f64 / seconds.max(1e-9);
        let passes = || late().filter_map(|step| step.pass.as_ref());
        let whole: f64 = late().map(|step| step.span.seconds()).sum();
        let sum = |of: fn(&super::words::Pass) -> u64| passes().map(of).sum::<u64>() as f64 * 1e-9;
        let (on_its_way, hidden) = (sum(|pass| pass.communication), sum(|pass| pass.hidden));
        let communicating =
            passes().next().map(|_| (part(on_its_way, whole), part(hidden, on_its_way)));
        let left = (task.steps - step) as f64 / rate;
        Some(Self {
            who: who.to_owned(),
            step,
            steps: task.steps,
            loss: late().max_by_key(|step| step.number)?.loss,
            rate: rate * task.batch as f64,
            communicating,
            left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
        })
    }

    /// For a terminal that is so wide: a bar, and as much of the rest as there is room for.
    pub(crate) fn bar(&self, width: usize, is_coloured: bool) -> String {
        let Self { who, step, steps, loss, rate, left, .. } = self;
        let digits = steps.to_string().len();
        let head = format!("{who}  ");
        let mut tail = format!("  {step:>digits$}/{steps}");
        let mut parts = vec![
            format!("loss {loss:.3}"),
            format!("{} left", figures::left(*left)),
            format!("{}/s", count(*rate)),
        ];
        if let Some((part, hidden)) = self.communicating {
            parts.push(format!("comm {}, hidden {}", percent(part), percent(hidden)));
        }
        let length = |text: &str| text.chars().count();
        for part in parts {
            // The least bar that is one.
            if length(&head) + SHORTEST + length(&tail) + 2 + length(&part) <= width {
                tail = format!("{tail}  {part}");
            }
        }
        let room = width.saturating_sub(length(&head) + length(&tail)).min(LONGEST);
        if room < SHORTEST {
            return format!("{head}{step}/{steps}").chars().take(width).collect();
        }
        let full = room * step / steps.max(&1);
        let (done, rest) = ("━".repeat(full), "─".repeat(room - full));
        match is_coloured {
            true => format!("{head}\x1b[36m{done}\x1b[0m\x1b[2m{rest}\x1b[0m{tail}"),
            false => format!("{head}{done}{rest}{tail}"),
        }
    }

    /// For a file.
    pub(crate) fn line(&self) -> String {
        let Self { who, step, steps, loss, rate, left, .. } = self;
        let communicating = self.communicating.map_or_else(String::new, |(part, hidden)| {
            format!(
                ", communicating {} of the time ({} of it hidden)",
                percent(part),
                percent(hidden)
            )
        });
        format!(
            "{who}: step {step} of {steps}, loss {loss:.3}, {} samples/s{communicating}, {} left",
            count(*rate),
            figures::left(*left)
        )
    }
}

fn part(of: f64, whole: f64) -> f64 {
    if whole > 0.0 { (of / whole).min(1.0) } else { 0.0 }
}

/// So many steps are looked at.
const RECENT: usize = 20;
const SHORTEST: usize = 6;
const LONGEST: usize = 40;

#[cfg(test)]
mod tests {
    use super::super::history::tests::step;
    use super::super::words::{Pass, Span, Step, Word};
    use super::*;

    fn progress() -> Progress {
        Progress {
            who: "2 ranks".to_owned(),
            step: 60,
            steps: 240,
            loss: 0.2345,
            rate: 2104.6,
            communicating: Some((0.081, 0.7)),
            left: Duration::from_millis(12_400),
        }
    }

    #[test]
    fn a_wide_terminal_shows_everything_and_a_narrow_one_what_has_room() {
        let shown = [200, 80, 60, 44, 20, 6].map(|width| progress().bar(width, false)).join("\n");
        insta::assert_snapshot!(shown, @"
        2 ranks  ━━━━━━━━━━──────────────────────────────   60/240  loss 0.234  13 s left  2,105/s  comm 8 %, hidden 70 %
        2 ranks  ━──────   60/240  loss 0.234  13 s left  2,105/s  comm 8 %, hidden 70 %
        2 ranks  ━━────────   60/240  loss 0.234  13 s left  2,105/s
        2 ranks  ━━━───────────   60/240  loss 0.234
        2 ranks  60/240
        2 rank
        ");
        for width in 0..200 {
            assert!(progress().bar(width, false).chars().count() <= width, "{width}");
        }
    }

    #[test]
    fn colours_do_not_change_what_is_said() {
        let coloured = progress().bar(100, true);
        let plain = ["\x1b[36m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(coloured, |it, code| it.replace(code, ""));
        assert_eq!(plain, progress().bar(100, false));
    }

    #[test]
    fn a_file_gets_sentences() {
        insta::assert_snapshot!(progress().line(), @"2 ranks: step 60 of 240, loss 0.234, 2,105 samples/s, communicating 8 % of the time (70 % of it hidden), 13 s left");
        let alone = Progress { communicating: None, ..progress() };
        insta::assert_snapshot!(alone.line(), @"2 ranks: step 60 of 240, loss 0.234, 2,105 samples/s, 13 s left");
    }

    #[test]
    fn the_last_steps_count() {
        let task = Task { seed: 1, steps: 100, batch: 32 };
        let mut history = History::new(1);
        assert_eq!(Progress::of("one process", &history, task), None);
        let span = |number: u64| (number * 1_000_000_000, (number + 1) * 1_000_000_000);
        for number in 0..50 {
            let pass = Pass {
                forward: Span { from: 0, to: 0 },
                backward: Span { from: 0, to: 0 },
                communication: 500_000_000,
                hidden: 100_000_000,
                buckets: Vec::new(),
            };
            let step = Step {
                pass: Some(pass),
                ..step(number, 1.0 / (number + 1) as f64, span(number as u64))
            };
            history.note(0, Word::Step(step)).unwrap();
        }
        let found = Progress::of("one process", &history, task).unwrap();
        assert_eq!((found.step, found.loss), (50, 0.02));
        assert!((found.rate - 32.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.left, Duration::from_secs(50));
        let (part, hidden) = found.communicating.unwrap();
        assert!((part - 0.5).abs() < 1e-9 && (hidden - 0.2).abs() < 1e-9, "{found:?}");
    }
}
