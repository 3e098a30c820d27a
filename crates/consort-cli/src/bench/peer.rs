//! Other implementations: programs in `bench/peers` that measure theirs as we measure ours.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::args::PeerName;
use super::measurer::{Measurer, Refusal};
use super::point::Point;
use super::process::Process;
use super::record::Record;
use super::setting::{Setting, Transport};

/// A peer that is running and waits for points.
#[derive(Debug)]
pub(crate) struct Peer {
    name: String,
    setting: Setting,
    process: Process,
    /// What it says it is.
    pub(crate) version: String,
}

impl Peer {
    /// Starts a peer's ranks and waits until they are ready.
    pub(crate) fn start(
        folder: &Path,
        name: &PeerName,
        setting: &Setting,
    ) -> Result<Self, Refusal> {
        let transport = match setting.transport {
            Transport::Auto | Transport::Shm => "shm",
            Transport::Tcp => "tcp",
        };
        let mut command = Command::new(folder.join(name.as_str()));
        command.arg(setting.ranks.to_string()).arg(transport);
        setting.surround(&mut command);
        let name = name.as_str().to_owned();
        let mut process = Process::start(&name, command)?;
        let Ready { ready: version } = process.hear(START)?;
        Ok(Self { name, setting: setting.clone(), process, version })
    }
}

impl Measurer for Peer {
    fn name(&self) -> &str {
        &self.name
    }

    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        self.process.tell(&point.to_string())?;
        let record: Record = self.process.hear(patience(point))?;
        let asked = (point.op, point.dtype, point.bytes, self.setting.ranks);
        if (record.op, record.dtype, record.bytes, record.ranks) != asked {
            let name = &self.name;
            return Err(Refusal::Gone(format!("{name}: asked for {point}, got {record:?}")));
        }
        Ok(record.asked(point, &self.setting))
    }
}

/// Where the peers are: beside the sources, which are above this directory or above the program.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let here = env::current_dir().ok();
    let program = env::current_exe().ok();
    let starts = here.iter().chain(&program);
    let mut candidates =
        starts.flat_map(|start| start.ancestors()).map(|it| it.join("bench/peers"));
    candidates.find(|folder| folder.is_dir()).ok_or_else(|| {
        "cannot find the peers: run this in consort's repository, after bench/setup, or say where \
         bench/peers is with --peers"
            .to_owned()
    })
}

/// A large point with many ranks on few cores takes a while, and the whole of it counts.
pub(crate) fn patience(point: &Point) -> Duration {
    Duration::from_secs(120) + Duration::from_secs_f64(point.seconds * 10.0)
}

#[derive(Deserialize)]
struct Ready {
    ready: String,
}

/// How long a peer may take to start: Python reads a gigabyte of libraries first.
const START: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::op::Op;
    use super::super::point::tests::point;
    use super::super::record::tests::record;
    use super::*;

    /// A peer that answers everything with one line.
    fn fake(answer: &str) -> (tempfile::TempDir, PeerName) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fake");
        let script = format!(
            "#!/bin/sh\necho \"{{\\\"ready\\\": \\\"fake $1 $2 $GLIBC_TUNABLES\\\"}}\"\n\
             while read line; do echo '{answer}'; done\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        (folder, "fake".parse().unwrap())
    }

    fn setting() -> Setting {
        Setting {
            ranks: 2,
            transport: Transport::Auto,
            encrypt: false,
            hosts: 1,
            huge_pages: true,
            symmetric: false,
        }
    }

    #[test]
    fn a_peer_is_told_its_setting_and_answers_points() {
        let expected = record("fake", Op::Broadcast, 64, 2.5);
        let expected = Record { huge_pages: true, ..expected };
        let (folder, name) = fake(&serde_json::to_string(&expected).unwrap());
        let mut peer = Peer::start(folder.path(), &name, &setting()).unwrap();
        assert_eq!(peer.version, "fake 2 shm glibc.malloc.hugetlb=1");
        assert_eq!(peer.measure(&point(Op::Broadcast, 64)), Ok(expected));
    }

    #[test]
    fn a_peer_that_answers_another_question_is_not_believed() {
        let other = record("fake", Op::Broadcast, 64, 2.5);
        let (folder, name) = fake(&serde_json::to_string(&other).unwrap());
        let mut peer = Peer::start(folder.path(), &name, &setting()).unwrap();
        let refusal = peer.measure(&point(Op::Broadcast, 128)).unwrap_err();
        assert!(matches!(refusal, Refusal::Gone(why) if why.contains("asked for broadcast f32")));
    }

    #[test]
    fn a_peer_that_is_not_set_up_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = Peer::start(folder.path(), &"absent".parse().unwrap(), &setting());
        assert!(matches!(refusal, Err(Refusal::Gone(why)) if why.contains("absent")));
    }

    #[test]
    fn the_peers_are_found_from_inside_the_repository() {
        assert!(folder().unwrap().join("mpi").is_dir());
    }
}
