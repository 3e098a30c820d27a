//! The report of a failure: which rank went first, where, how, and what it said last.

mod reason;
mod words;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::status::Status;
pub(crate) use reason::reason_in;
use words::{Ranks, Seconds};

/// A rank that failed before any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The rank.
    pub(crate) rank: u32,
    /// Its number on its host.
    pub(crate) local_rank: u32,
    /// Its host.
    pub(crate) host: String,
    /// How it ended.
    pub(crate) status: Status,
    /// How long after its start.
    pub(crate) after: Duration,
    /// How often the job had been started again before.
    pub(crate) restarts: u32,
    /// The reason the program itself left, in PyTorch's error file.
    pub(crate) reason: Option<String>,
    /// The last lines of its output.
    pub(crate) tail: Vec<String>,
    /// What became of the other ranks of its host.
    pub(crate) others: Others,
}

/// The ranks beside the one that failed first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Others {
    /// They had failed before, which was tolerated.
    pub(crate) tolerated: Vec<(u32, Status)>,
    /// They failed too, before they were ended.
    pub(crate) failed: Vec<(u32, Status)>,
    /// They were ended because of the failure, which is no failure of theirs.
    pub(crate) ended: Vec<u32>,
    /// They had finished.
    pub(crate) finished: Vec<u32>,
}

impl Failure {
    /// The report for a terminal that shows colours.
    pub(crate) fn coloured(&self) -> impl fmt::Display {
        Report {
            failure: self,
            paint: Paint { failure: "\x1b[1;31m", quiet: "\x1b[2m", plain: "\x1b[0m" },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Report { failure: self, paint: Paint { failure: "", quiet: "", plain: "" } }.fmt(f)
    }
}

struct Report<'a> {
    failure: &'a Failure,
    paint: Paint,
}

/// What switches colours on and off.
struct Paint {
    failure: &'static str,
    quiet: &'static str,
    plain: &'static str,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { rank, local_rank, host, status, after, .. } = self.failure;
        let Paint { failure, quiet, plain } = self.paint;
        writeln!(f, "{failure}rank {rank} failed: {status}{plain}")?;
        write!(
            f,
            "  on host {host} (local rank {local_rank}), {} after the start",
            Seconds(*after)
        )?;
        match self.failure.restarts {
            0 => writeln!(f)?,
            1 => writeln!(f, ", after 1 restart")?,
            restarts => writeln!(f, ", after {restarts} restarts")?,
        }
        if let Some(reason) = &self.failure.reason {
            writeln!(f, "  the reason it left:")?;
            for line in reason.lines().take(REASON_LINES) {
                writeln!(f, "  {quiet}│{plain} {line}")?;
            }
        }
        match self.failure.tail.len() {
            0 => writeln!(f, "  it wrote nothing")?,
            1 => writeln!(f, "  its last line:")?,
            count => writeln!(f, "  its last {count} lines:")?,
        }
        for line in &self.failure.tail {
            writeln!(f, "  {quiet}│{plain} {line}")?;
        }
        self.failure.others.fmt(f)
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tell(f, &self.tolerated, "had failed before it, which was tolerated")?;
        tell(f, &self.failed, "failed after it")?;
        if !self.ended.is_empty() {
            let ended = Ranks(&self.ended);
            writeln!(f, "  {ended} {} ended because of it", ended.were())?;
        }
        if !self.finished.is_empty() {
            writeln!(f, "  {} had finished", Ranks(&self.finished))?;
        }
        Ok(())
    }
}

/// Says how ranks failed, of many only of the first.
fn tell(f: &mut fmt::Formatter<'_>, failed: &[(u32, Status)], when: &str) -> fmt::Result {
    let (shown, hidden) = failed.split_at(failed.len().min(OTHERS_SHOWN));
    for (rank, status) in shown {
        writeln!(f, "  rank {rank} {when}: {status}")?;
    }
    let hidden: Vec<u32> = hidden.iter().map(|(rank, _)| *rank).collect();
    if hidden.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {} {when}, too", Ranks(&hidden))
}

const REASON_LINES: usize = 20;
const OTHERS_SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            rank: 5,
            local_rank: 1,
            host: "box2".to_owned(),
            status: Status::Killed(11),
            after: Duration::from_millis(4321),
            restarts: 2,
            reason: None,
            tail: vec!["epoch 3".to_owned(), "loss nan".to_owned()],
            others: Others {
                tolerated: vec![(2, Status::Exited(9))],
                failed: vec![(6, Status::Exited(1))],
                ended: vec![4, 7],
                finished: vec![],
            },
        }
    }

    #[test]
    fn a_report_tells_who_where_how_and_what_it_said() {
        let expected = "\
rank 5 failed: killed by SIGSEGV (segmentation fault)
  on host box2 (local rank 1), 4.32 s after the start, after 2 restarts
  its last 2 lines:
  │ epoch 3
  │ loss nan
  rank 2 had failed before it, which was tolerated: exit code 9
  rank 6 failed after it: exit code 1
  ranks 4 and 7 were ended because of it
";
        assert_eq!(failure().to_string(), expected);
    }

    #[test]
    fn a_silent_rank_and_its_reason() {
        let reason = Some("ValueError: no\nsecond line".to_owned());
        let others = Others { finished: vec![0], ..Others::default() };
        let report = Failure { restarts: 0, tail: vec![], reason, others, ..failure() }.to_string();
        let expected = "\
rank 5 failed: killed by SIGSEGV (segmentation fault)
  on host box2 (local rank 1), 4.32 s after the start
  the reason it left:
  │ ValueError: no
  │ second line
  it wrote nothing
  rank 0 had finished
";
        assert_eq!(report, expected);
    }

    #[test]
    fn a_crowd_of_failures_is_summed_up() {
        let failed = (0..40).map(|rank| (rank, Status::Exited(1))).collect();
        let others = Others { failed, ..Others::default() };
        let report = Failure { others, ..failure() }.to_string();
        assert!(report.contains("rank 3 failed after it: exit code 1\n"), "{report}");
        assert!(report.ends_with("  ranks 4-39 failed after it, too\n"), "{report}");
    }

    #[test]
    fn colours_change_nothing_but_the_looks() {
        let coloured = failure().coloured().to_string();
        assert!(coloured.starts_with("\x1b[1;31mrank 5 failed"), "{coloured:?}");
        let plain = ["\x1b[1;31m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(coloured, |text, colour| text.replace(colour, ""));
        assert_eq!(plain, failure().to_string());
    }

    #[test]
    fn a_report_can_travel_between_hosts() {
        let sent = serde_json::to_string(&failure()).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&sent).unwrap(), failure());
    }
}
