//! Our own ranks: processes of this same program, asked as peers are.
//!
//! On several hosts they are asked twice: as they find it best, and with TCP everywhere.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use consort_store::{Secret, Server};

use super::hosts::Hosts;
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
    name: &'static str,
    ranks: Vec<Process>,
    setting: Setting,
    // They leave their meeting as they end, so it has to be there until then.
    _meeting: Server,
}

impl Ours {
    /// Starts the ranks and waits until they have met. To be called from a thread that lives as
    /// long as they do.
    pub(crate) fn start(
        name: &'static str,
        setting: &Setting,
        hosts: Option<&Hosts>,
    ) -> Result<Self, Refusal> {
        let secret = Secret::generate().map_err(cannot)?;
        let meeting = match hosts {
            Some(hosts) => hosts.on_first(|| Server::start(hosts.anywhere(), &secret)),
            None => Ok(Server::start((Ipv4Addr::LOCALHOST, 0).into(), &secret)),
        };
        let meeting = meeting.map_err(cannot)?.map_err(cannot)?;
        let world = u32::try_from(setting.ranks).map_err(cannot)?;
        let seat = |rank| Seat {
            rank,
            world,
            address: format!("tcp://{}", meeting.address()),
            secret: secret.to_hex(),
            transport: setting.transport.to_string(),
            encrypt: setting.encrypt,
            symmetric: setting.symmetric,
            host: hosts.map(|hosts| hosts.path(host_of(rank, world, hosts.count()))),
            asker: std::process::id(),
        };
        let ranks = (0..world).map(|rank| start(&seat(rank), setting));
        let mut ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        for rank in &mut ranks {
            rank.hear::<Met>(START)?;
        }
        Ok(Self { name, ranks, setting: setting.clone(), _meeting: meeting })
    }
}

impl Measurer for Ours {
    fn name(&self) -> &str {
        self.name
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
        let Setting { encrypt: encrypted, symmetric, hosts, .. } = self.setting;
        let hosts = (hosts > 1).then_some(hosts);
        let transport = self.setting.transport_in_use();
        let record = Record::new(self.name, transport, self.ranks.len(), point, figures);
        Ok(Record { encrypted, symmetric, hosts, ..record.asked(point, &self.setting) })
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

/// The first ranks on the first host, as launchers place them.
fn host_of(rank: u32, world: u32, hosts: usize) -> usize {
    rank as usize * hosts / world as usize
}

/// Our ranks, as they find it best.
pub(crate) const NAME: &str = "consort";

/// Our ranks with TCP everywhere, also on one host.
pub(crate) const FLAT: &str = "flat";

/// How long the ranks may take to meet.
const START: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fill_one_host_after_the_other() {
        let hosts = |world, hosts| -> Vec<usize> {
            (0..world).map(|rank| host_of(rank, world, hosts)).collect()
        };
        assert_eq!(hosts(4, 2), [0, 0, 1, 1]);
        assert_eq!(hosts(5, 2), [0, 0, 0, 1, 1]);
        assert_eq!(hosts(3, 3), [0, 1, 2]);
    }
}
