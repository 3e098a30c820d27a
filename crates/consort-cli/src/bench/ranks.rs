//! Ranks of ours: processes of this same program that have met, and are asked together.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use consort_store::{Secret, Server};
use serde::de::DeserializeOwned;

use super::hosts::Hosts;
use super::measurer::Refusal;
use super::process::Process;
use super::seat::{Met, Seat};
use super::setting::Setting;

/// Our ranks, met and waiting for questions.
#[derive(Debug)]
pub(crate) struct Ranks {
    ranks: Vec<Process>,
    // They leave their meeting as they end, so it has to be there until then.
    _meeting: Server,
}

impl Ranks {
    /// Starts a process for each rank, and waits until they have met. To be called from a thread that
    /// lives as long as they do.
    pub(crate) fn start(
        command: impl Fn() -> Command,
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
        let ranks = (0..world).map(|rank| start(&seat(rank), command(), setting));
        let mut ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        for rank in &mut ranks {
            rank.hear::<Met>(START)?;
        }
        Ok(Self { ranks, _meeting: meeting })
    }

    /// Asks all of them the same, and gives their answers, which have to come within `patience`.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        question: &str,
        patience: Duration,
    ) -> Result<Vec<T>, Refusal> {
        for rank in &mut self.ranks {
            rank.tell(question)?;
        }
        // Everyone is heard out: an answer left behind would be taken for that to the next question.
        let heard: Vec<Result<T, Refusal>> =
            self.ranks.iter_mut().map(|rank| rank.hear(patience)).collect();
        let ends: Vec<&str> = heard.iter().filter_map(|it| gone(it.as_ref().err()?)).collect();
        // Whoever was killed has no last words; the others say whom they miss.
        if !ends.is_empty() {
            return Err(Refusal::Gone(ends.join("\n")));
        }
        heard.into_iter().collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ranks.len()
    }
}

/// This same program, as something else.
pub(crate) fn this_program(subcommand: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

fn start(seat: &Seat, mut command: Command, setting: &Setting) -> Result<Process, Refusal> {
    setting.surround(&mut command);
    let mut process = Process::start(&format!("rank {}", seat.rank), command)?;
    process.tell(&serde_json::to_string(seat).map_err(cannot)?)?;
    Ok(process)
}

fn gone(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::Gone(why) => Some(why),
        Refusal::Point(_) => None,
    }
}

fn cannot(error: impl std::fmt::Display) -> Refusal {
    Refusal::Gone(error.to_string())
}

/// The first ranks on the first host, as launchers place them.
fn host_of(rank: u32, world: u32, hosts: usize) -> usize {
    rank as usize * hosts / world as usize
}

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
