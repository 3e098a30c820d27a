//! Hosts for launchers: network namespaces, each with a host name of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use consort_testkit::{Hosts, skip};
use tempfile::TempDir;

use super::launch::Launch;

/// Hosts, and a directory that all of them see. A job of theirs meets on host 0.
pub(crate) struct Cluster {
    pub(crate) hosts: Hosts,
    shared: TempDir,
}

impl Cluster {
    /// So many hosts; none, and said so, where the system cannot do that.
    pub(crate) fn new(count: usize) -> Option<Self> {
        match Hosts::new(count) {
            Ok(hosts) => Some(Self { hosts, shared: tempfile::tempdir().unwrap() }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    /// Starts `consort run OPTIONS` on a host, with the meeting's place and secret.
    pub(crate) fn launch(&self, host: usize, options: &[&str], script: &str) -> Launch {
        self.launch_program(host, options, ["sh", "-c", script])
    }

    /// The same with any program.
    pub(crate) fn launch_program(
        &self,
        host: usize,
        options: &[&str],
        program: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Launch {
        self.start(host, &self.secret(), options, program)
    }

    /// Starts two hosts' job on one of them, with a secret of its own.
    pub(crate) fn launch_with_secret(&self, host: usize, secret: &Path) -> Launch {
        self.start(host, secret, &["--nnodes", "2"], ["true"])
    }

    fn start(
        &self,
        host: usize,
        secret: &Path,
        options: &[&str],
        program: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Launch {
        let mut command = self.command(host);
        command.args(["--rdzv", &self.meeting()]).arg("--secret-file").arg(secret);
        command.args(options).arg("--").args(program);
        Launch::command(command)
    }

    /// `consort run` on a host, as yet without options. Its ranks find the directory in `SHARED`.
    pub(crate) fn command(&self, host: usize) -> Command {
        let mut command = self.hosts.host(host).command("unshare");
        let rename = "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";
        command.args(["--uts", "sh", "-c", rename, &name(host)]);
        command.args([env!("CARGO_BIN_EXE_consort"), "run"]).env("SHARED", self.shared.path());
        command
    }

    /// Where the hosts meet.
    pub(crate) fn meeting(&self) -> String {
        format!("tcp://{}:29400", self.hosts.host(0).address())
    }

    /// The job's secret, which host 0 makes.
    pub(crate) fn secret(&self) -> PathBuf {
        self.path("secret")
    }

    /// A file in the directory that all see.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.shared.path().join(name)
    }

    /// Creates an empty one, which ranks may be waiting for.
    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// A host as launchers name it.
    pub(crate) fn shown(&self, host: usize) -> String {
        format!("{} ({})", name(host), self.hosts.host(host).address())
    }
}

/// A host's name.
pub(crate) fn name(host: usize) -> String {
    format!("box{host}")
}
