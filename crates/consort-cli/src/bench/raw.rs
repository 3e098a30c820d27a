//! What sockets themselves can do: two processes on the loopback interface that send each other as
//! much as a link of two ranks carries, both ways at once, and nothing else.
//!
//! It is what collectives over TCP are held against: they cannot be faster than this for long.

pub(crate) mod end;
mod streams;

use std::process::Command;
use std::time::Duration;

use super::measurer::{Measurer, Refusal};
use super::peer::patience;
use super::point::Point;
use super::process::Process;
use super::record::{Figures, Record};
use super::samples::{self, Samples};
use super::setting::Setting;
use end::{Open, Seat, Task};

/// The two processes, connected and waiting for points.
#[derive(Debug)]
pub(crate) struct Raw {
    ends: [Process; 2],
    setting: Setting,
}

impl Raw {
    /// Starts both and lets them connect. To be called from a thread that lives as long as they do.
    pub(crate) fn start(setting: &Setting) -> Result<Self, Refusal> {
        let asker = std::process::id();
        let mut first = start(&Seat { port: None, asker }, setting)?;
        let Open { port } = first.hear(START)?;
        let mut second = start(&Seat { port: Some(port), asker }, setting)?;
        for end in [&mut first, &mut second] {
            end.hear::<Open>(START)?;
        }
        Ok(Self { ends: [first, second], setting: setting.clone() })
    }

    fn with(&mut self, streams: usize, point: &Point) -> Result<Figures, Refusal> {
        let task = Task { streams, bytes: carried(point), seconds: point.seconds };
        let task = serde_json::to_string(&task).map_err(cannot)?;
        for end in &mut self.ends {
            end.tell(&task)?;
        }
        // Both are heard out: an answer left behind would be taken for that to the next task.
        let heard = self.ends.each_mut().map(|end| end.hear::<Samples>(patience(point)));
        let samples = heard.into_iter().collect::<Result<Vec<_>, _>>()?;
        samples::merge(&samples).map_err(cannot)
    }
}

impl Measurer for Raw {
    fn name(&self) -> &str {
        NAME
    }

    /// With few streams and with many; the better one counts.
    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        let mut best: Option<(usize, Figures)> = None;
        for streams in STREAMS {
            let figures = self.with(streams, point)?;
            if best.is_none_or(|(_, best)| figures.p50_us < best.p50_us) {
                best = Some((streams, figures));
            }
        }
        let (streams, figures) = best.expect("there is more than one number of streams");
        let record = Record::new(NAME, "tcp", ENDS, point, figures);
        let huge_pages = self.setting.huge_pages;
        Ok(Record { streams: Some(streams), huge_pages, ..record })
    }
}

/// How many bytes each end sends: those that the link between two ranks carries.
fn carried(point: &Point) -> usize {
    (point.bytes as f64 * point.op.bus_factor(ENDS)) as usize
}

fn start(seat: &Seat, setting: &Setting) -> Result<Process, Refusal> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("__bench_raw");
    setting.surround(&mut command);
    let mut process = Process::start(NAME, command)?;
    process.tell(&serde_json::to_string(seat).map_err(cannot)?)?;
    Ok(process)
}

fn cannot(error: impl std::fmt::Display) -> Refusal {
    Refusal::Gone(error.to_string())
}

/// What records of it are called.
pub(crate) const NAME: &str = "raw";

/// How many processes there are, whatever the number of ranks.
pub(crate) const ENDS: usize = 2;

/// The numbers of streams that are tried.
const STREAMS: [usize; 2] = [1, end::MOST_STREAMS];

/// How long the two may take to connect.
const START: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::super::op::Op;
    use super::super::point::tests::point;
    use super::*;

    #[test]
    fn each_end_sends_what_a_link_of_two_ranks_carries() {
        assert_eq!(carried(&point(Op::AllReduce, 1 << 20)), 1 << 20);
        assert_eq!(carried(&point(Op::AllGather, 1 << 20)), 1 << 19);
        assert_eq!(carried(&point(Op::Barrier, 0)), 0);
    }
}
