//! Where one run takes place: a folder, a socket for orders, a store's address, and hosts if there are
//! to be two. All of it is gone afterwards.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use consort_store::{Secret, Server};
use consort_testkit::{Host, Hosts};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::library::Library;
use crate::scenario::{Fault, Scenario};

/// Where one run takes place.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: TempDir,
    listener: UnixListener,
    store: SocketAddr,
    /// consort's, which its launcher would hold. Gloo's is rank 0's, and Open MPI has none.
    _server: Option<Server>,
    hosts: Option<Hosts>,
}

impl Stage {
    /// Makes what a scenario needs.
    pub(crate) fn new(library: Library, scenario: &Scenario) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("failure").tempdir()?;
        let listener = UnixListener::bind(folder.path().join(SOCKET))?;
        listener.set_nonblocking(true)?;
        let secret = Secret::generate()?;
        secret.write_new(folder.path().join(SECRET))?;
        let hosts = match scenario.fault {
            Fault::Cut => Some(Hosts::new(2).map_err(|skip| format!("no hosts here: {skip}"))?),
            _ => None,
        };
        let store = match &hosts {
            Some(hosts) => (hosts.host(0).address(), STORE_PORT).into(),
            None => free_address()?,
        };
        let _server = match (library.is_consort(), &hosts) {
            (false, _) => None,
            (true, Some(hosts)) => Some(hosts.host(0).run(|| Server::start(store, &secret))?),
            (true, None) => Some(Server::start(store, &secret)?),
        };
        Ok(Self { folder, listener, store, _server, hosts })
    }

    /// A command that will run on one of the hosts, or on this one if there are none.
    pub(crate) fn command(&self, host: usize, program: &Path) -> Command {
        match &self.hosts {
            Some(hosts) => hosts.host(host).command(program),
            None => Command::new(program),
        }
    }

    /// Pulls the cable of the second host.
    pub(crate) fn cut(&self) {
        self.hosts.iter().for_each(|hosts| hosts.cut(1));
    }

    /// Each host's address and the name of its network namespace, as `mpi_agent` reads them.
    pub(crate) fn map(&self) -> String {
        let line = |host: &Host| format!("{} {}\n", host.address(), host.name());
        self.each_host().map(line).collect()
    }

    fn each_host(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().flat_map(|hosts| (0..hosts.count()).map(|index| hosts.host(index)))
    }

    pub(crate) fn hosts(&self) -> u32 {
        if self.hosts.is_some() { 2 } else { 1 }
    }

    /// The interface on which ranks reach each other.
    pub(crate) fn interface(&self) -> &'static str {
        if self.hosts.is_some() { "eth0" } else { "lo" }
    }

    pub(crate) fn store(&self) -> SocketAddr {
        self.store
    }

    /// Where ranks come to be told what to do. Names of files are the same on all hosts.
    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    pub(crate) fn secret_file(&self) -> PathBuf {
        self.folder.path().join(SECRET)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file for what ranks print.
    pub(crate) fn output(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.folder.path().join(OUTPUT))
    }

    /// What ranks have printed.
    pub(crate) fn printed(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join(OUTPUT)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Stage {
    /// A launcher cannot end what it has started beyond a cable that is cut. Whoever is in the hosts'
    /// namespaces was started for this run.
    fn drop(&mut self) {
        for host in self.each_host() {
            let listed = Command::new("ip").args(["netns", "pids", host.name()]).output();
            let listed = listed.map(|output| output.stdout).unwrap_or_default();
            for process in String::from_utf8_lossy(&listed).split_ascii_whitespace() {
                let process = process.parse().ok().and_then(Pid::from_raw);
                let _ = process.map(|process| kill_process(process, Signal::KILL));
            }
        }
    }
}

/// An address on the loopback interface whose port nobody has just now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

const SOCKET: &str = "orders";
const SECRET: &str = "secret";
const OUTPUT: &str = "output";

/// On hosts that are made for one run, every port is free.
const STORE_PORT: u16 = 29_500;
