//! Hosts on one machine: network namespaces on one wire.

mod ip;

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use crate::ranks::in_a_rank;
use crate::skip::Skip;
use ip::ip;

/// Hosts that can reach each other and nothing else. Dropping them removes them.
///
/// Each is a network namespace with its own loopback and one interface `eth0`, plugged into a
/// switch that stands in a namespace too; this machine's own network is not touched. What a
/// killed test has left behind is removed when the next one makes hosts.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    switch: NameSpace,
}

/// One host.
#[derive(Debug)]
pub struct Host {
    space: NameSpace,
    address: Address,
}

/// Where a host can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

impl Hosts {
    /// Makes `count` hosts, plugged in and ready.
    ///
    /// # Errors
    /// Where the program `ip` is missing, or the system does not permit network namespaces, veth
    /// pairs or bridges.
    ///
    /// # Panics
    /// In a rank: hosts made before [`Ranks::start`](crate::Ranks::start) would be made again by
    /// every rank. Use [`Ranks::on_hosts`](crate::Ranks::on_hosts).
    pub fn new(count: usize) -> Result<Self, Skip> {
        assert!(!in_a_rank(), "a rank cannot make hosts; put the ranks on hosts with on_hosts");
        assert!((1..=250).contains(&count), "between 1 and 250 hosts, not {count}");
        ip::sweep();
        let network = next_network();
        let switch = NameSpace::new(format!("{network}s"))?;
        switch.try_ip(&["link", "add", "switch", "type", "bridge"])?;
        switch.ip(&["link", "set", "switch", "up"]);
        let mut hosts = Vec::new();
        for index in 0..count {
            hosts.push(Host::new(&network, index, &switch)?);
        }
        let hosts = Self { hosts, switch };
        (0..count).for_each(|index| hosts.await_link(index, true));
        Ok(hosts)
    }

    /// Pulls the cable of a host: what is sent to it or by it is lost, and nobody is told.
    ///
    /// # Panics
    /// When the host does not see it.
    pub fn cut(&self, host: usize) {
        self.switch.ip(&["link", "set", &port(host), "down"]);
        self.await_link(host, false);
    }

    /// Plugs the cable of a host in again.
    ///
    /// # Panics
    /// When the host does not see it.
    pub fn mend(&self, host: usize) {
        self.switch.ip(&["link", "set", &port(host), "up"]);
        self.await_link(host, true);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// One of them.
    pub fn host(&self, host: usize) -> &Host {
        &self.hosts[host]
    }

    /// Where each can be reached.
    pub fn addresses(&self) -> Vec<Address> {
        self.hosts.iter().map(|host| host.address).collect()
    }

    fn await_link(&self, host: usize, wanted: bool) {
        let started = Instant::now();
        while self.hosts[host].has_link() != wanted {
            assert!(
                started.elapsed() < LINK_LIMIT,
                "the link of host {host} is not {} after {LINK_LIMIT:?}",
                if wanted { "up" } else { "down" }
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Host {
    fn new(network: &Network, index: usize, switch: &NameSpace) -> Result<Self, Skip> {
        let space = NameSpace::new(format!("{network}h{index}"))?;
        let (port, last) = (port(index), index + 1);
        let address = Address {
            v4: Ipv4Addr::new(10, 77, network.number, u8::try_from(last).expect("at most 250")),
            v6: format!("fd00:77:{:x}::{last:x}", network.number).parse().expect("an address"),
        };
        let name = space.name.as_str();
        let cable = ["type", "veth", "peer", "name", "eth0", "netns", name];
        switch.try_ip(&[&["link", "add", &port], cable.as_slice()].concat())?;
        switch.ip(&["link", "set", &port, "master", "switch", "up"]);
        space.ip(&["link", "set", "lo", "up"]);
        space.ip(&["addr", "add", &format!("{}/24", address.v4), "dev", "eth0"]);
        // Without duplicate detection the address can be used at once.
        space.ip(&["addr", "add", &format!("{}/64", address.v6), "dev", "eth0", "nodad"]);
        space.ip(&["link", "set", "eth0", "up"]);
        Ok(Self { space, address })
    }

    /// A command that runs on this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space.name]).arg(program);
        command
    }

    /// Runs a closure of this process on this host: the sockets that it opens are the host's, and
    /// stay so wherever they are used afterwards.
    ///
    /// # Panics
    /// When the closure does.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let space = File::open(Path::new(SPACES).join(&self.space.name)).expect("the host exists");
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                use std::os::fd::AsFd;
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("who made the host may enter it");
                body()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The name of its network namespace.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// Its IPv4 address.
    pub fn address(&self) -> Ipv4Addr {
        self.address.v4
    }

    /// Its IPv6 address.
    pub fn address_v6(&self) -> Ipv6Addr {
        self.address.v6
    }

    fn has_link(&self) -> bool {
        self.space.ip(&["-oneline", "link", "show", "eth0"]).contains("LOWER_UP")
    }
}

/// A named network namespace, removed when dropped, and with it all interfaces in it.
#[derive(Debug)]
struct NameSpace {
    name: String,
}

impl NameSpace {
    fn new(name: String) -> Result<Self, Skip> {
        ip(&["netns", "add", &name])?;
        Ok(Self { name })
    }

    /// For what a system may not have.
    fn try_ip(&self, arguments: &[&str]) -> Result<String, Skip> {
        ip(&[&["-netns", &self.name], arguments].concat())
    }

    /// For what every system that has namespaces can do.
    fn ip(&self, arguments: &[&str]) -> String {
        self.try_ip(arguments).unwrap_or_else(|failure| panic!("{failure}"))
    }
}

impl Drop for NameSpace {
    fn drop(&mut self) {
        if let Err(failure) = ip(&["netns", "delete", &self.name]) {
            eprintln!("{failure}");
        }
    }
}

/// The name of one switch and its hosts: `consort-<process>-<number>`.
#[derive(Debug)]
struct Network {
    number: u8,
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}-{}", std::process::id(), self.number)
    }
}

fn next_network() -> Network {
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = *next;
    *next = next.checked_add(1).expect("a test process makes at most 255 networks");
    Network { number }
}

fn port(host: usize) -> String {
    format!("port{host}")
}

static NEXT: Mutex<u8> = Mutex::new(0);

/// How long a link may take to be seen up or down.
const LINK_LIMIT: Duration = Duration::from_secs(10);

const PREFIX: &str = "consort-";
const SPACES: &str = "/run/netns";
