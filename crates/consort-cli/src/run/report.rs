//! The report of a failure: which rank went first, where, how, and what it said last.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::status::Status;

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
        for (rank, status) in self.failed.iter().take(OTHERS_SHOWN) {
            writeln!(f, "  rank {rank} failed after it: {status}")?;
        }
        let hidden: Vec<u32> =
            self.failed.iter().skip(OTHERS_SHOWN).map(|(rank, _)| *rank).collect();
        if !hidden.is_empty() {
            writeln!(f, "  {} failed after it, too", Ranks(&hidden))?;
        }
        if !self.ended.is_empty() {
            writeln!(f, "  {} ended because of it", Ranks(&self.ended).were())?;
        }
        if !self.finished.is_empty() {
            writeln!(f, "  {} had finished", Ranks(&self.finished))?;
        }
        Ok(())
    }
}

/// A list of ranks in ascending order, as `rank 1` or `ranks 0, 2-5 and 7`.
struct Ranks<'a>(&'a [u32]);

impl Ranks<'_> {
    fn were(&self) -> String {
        format!("{self} {}", if self.0.len() == 1 { "was" } else { "were" })
    }
}

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> = self
            .0
            .chunk_by(|rank, next| rank + 1 == *next)
            .flat_map(|run| match run {
                [first, .., last] if run.len() > 2 => vec![format!("{first}-{last}")],
                few => few.iter().map(u32::to_string).collect(),
            })
            .collect();
        match runs.as_slice() {
            [one] if self.0.len() == 1 => write!(f, "rank {one}"),
            [most @ .., last] if !most.is_empty() => {
                write!(f, "ranks {} and {last}", most.join(", "))
            }
            few => write!(f, "ranks {}", few.join("")),
        }
    }
}

/// A length of time with about three digits.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0..10 => write!(f, "{seconds:.2} s"),
            10..120 => write!(f, "{seconds:.1} s"),
            120..7200 => write!(f, "{:.1} min", seconds / 60.0),
            _ => write!(f, "{:.1} h", seconds / 3600.0),
        }
    }
}

/// The reason in an error file as PyTorch writes it: `{"message": {"message": "…"}}`, or the text
/// itself as `message`.
pub(crate) fn reason_in(error_file: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(error_file).ok()?.take(ERROR_FILE_BYTES).read_to_end(&mut text).ok()?;
    let content: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let message = content.get("message")?;
    let text = message.as_str().or_else(|| message.get("message")?.as_str())?;
    Some(text.to_owned())
}

const REASON_LINES: usize = 20;
const OTHERS_SHOWN: usize = 4;
const ERROR_FILE_BYTES: u64 = 1 << 20;
