//! Our own ranks: processes of this same program, asked as peers are.

use std::process::Command;
use std::time::Duration;

use consort_store::{Secret, Server};

use super::measurer::{Measurer, Refusal};
use super::peer::patience;
use super::point::Point;
use super::process::Process;
use super::rank::{Met, Seat};
use super::record::Record;
use super::samples::{self, Samples};
use super::setting::Setting;

/// Our ranks, met and waiting for points.
#[derive(Debug)]
pub(crate) struct Ours {
    ranks: Vec<Process>,
    setting: Setting,
    // They leave their meeting as they end, so it has to be there until then.
    _meeting: Server,
}

impl Ours {
    /// Starts the ranks and waits until they have met. To be called from a thread that lives as
    /// long as they do.
    pub(crate) fn start(setting: &Setting) -> Result<Self, Refusal> {
        let secret = Secret::generate().map_err(cannot)?;
        let anywhere = "127.0.0.1:0".parse().expect("it is an address");
        let meeting = Server::start(anywhere, &secret).map_err(cannot)?;
        let world = u32::try_from(setting.ranks).map_err(cannot)?;
        let seat = |rank| Seat {
            rank,
            world,
            address: format!("tcp://{}", meeting.address()),
            secret: secret.to_hex(),
            symmetric: setting.symmetric,
            asker: std::process::id(),
        };
        let ranks = (0..world).map(|rank| start(&seat(rank), setting));
        let mut ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        for rank in &mut ranks {
            rank.hear::<Met>(START)?;
        }
        Ok(Self { ranks, setting: setting.clone(), _meeting: meeting })
    }
}

impl Measurer for Ours {
    fn name(&self) -> &str {
        NAME
    }

    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        for rank in &mut self.ranks {
            rank.tell(&point.to_string())?;
        }
        // Everyone is heard out: an answer left behind would be taken for that to the next point.
        let heard: Vec<Result<Samples, Refusal>> =
            self.ranks.iter_mut().map(|rank| rank.hear(patience(point))).collect();
        let samples = heard.into_iter().collect::<Result<Vec<_>, _>>()?;
        let figures = samples::merge(&samples).map_err(cannot)?;
        let record = Record::new(NAME, "shm", self.ranks.len(), point, figures);
        Ok(Record { symmetric: self.setting.symmetric, ..record.asked(point, &self.setting) })
    }
}

fn start(seat: &Seat, setting: &Setting) -> Result<Process, Refusal> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("__bench_rank");
    setting.surround(&mut command);
    let mut process = Process::start(&format!("rank {}", seat.rank), command)?;
    process.tell(&serde_json::to_string(seat).map_err(cannot)?)?;
    Ok(process)
}

fn cannot(error: impl std::fmt::Display) -> Refusal {
    Refusal::Gone(error.to_string())
}

const NAME: &str = "consort";

/// How long the ranks may take to meet.
const START: Duration = Duration::from_secs(60);
