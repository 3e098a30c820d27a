//! Hosts on one machine: network namespaces on one wire.

mod address;
mod checksum;
mod firewall;
mod host;
mod network;
mod relay;
mod space;
mod tools;
mod weather;

use std::thread;
use std::time::{Duration, Instant};

pub use address::Address;
pub use host::Host;
pub use network::{Family, Network};

use crate::ranks::in_a_rank;
use crate::skip::Skip;
use host::port;
use space::{Label, NameSpace};
use weather::Weather;

/// Hosts that can reach each other and nothing else. Dropping them removes them.
///
/// Each is a network namespace with its own loopback and one interface `eth0`, plugged into a
/// switch that stands in a namespace too; this machine's own network is not touched. What a
/// killed test has left behind is removed when the next one makes hosts.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    _weather: Weather,
    switch: NameSpace,
}

impl Hosts {
    /// Makes the hosts of a network, plugged in and ready; a number makes so many on a network
    /// without flaws.
    ///
    /// # Errors
    /// Where the program `ip` is missing, or the system does not permit network namespaces, veth
    /// pairs or bridges, or cannot do what the network is to be like.
    ///
    /// # Panics
    /// In a rank: hosts made before [`Ranks::start`](crate::Ranks::start) would be made again by
    /// every rank. Use [`Ranks::on_hosts`](crate::Ranks::on_hosts).
    pub fn new(network: impl Into<Network>) -> Result<Self, Skip> {
        assert!(!in_a_rank(), "a rank cannot make hosts; put the ranks on hosts with on_hosts");
        let network = network.into();
        tools::sweep();
        let label = Label::next();
        let switch = NameSpace::new(format!("{label}s"))?;
        switch.attempt("ip", &["link", "add", SWITCH, "type", "bridge"])?;
        switch.ip(&["link", "set", SWITCH, "up"]);
        let weather = Weather::new(&network, label, &switch)?;
        let mut hosts = Vec::new();
        for index in 0..network.hosts {
            hosts.push(Host::new(&network, label, index, &switch)?);
            weather.connect(&switch, index)?;
        }
        let hosts = Self { hosts, _weather: weather, switch };
        (0..hosts.count()).for_each(|index| hosts.await_link(index, true));
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

    /// Parts the network: these hosts get a switch of their own. They reach each other as before, and
    /// nobody else; what is on its way between the parts is lost, and nobody is told.
    ///
    /// # Panics
    /// When the network has been parted before.
    pub fn part(&self, hosts: &[usize]) {
        self.switch.ip(&["link", "add", OTHER_SWITCH, "type", "bridge"]);
        self.switch.ip(&["link", "set", OTHER_SWITCH, "up"]);
        for &host in hosts {
            self.switch.ip(&["link", "set", &port(host), "master", OTHER_SWITCH]);
        }
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
        self.hosts.iter().map(Host::addresses).collect()
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

const SWITCH: &str = "switch";
/// Where a part of the hosts is when the network [has been parted](Hosts::part).
const OTHER_SWITCH: &str = "switch2";

/// How long a link may take to be seen up or down.
const LINK_LIMIT: Duration = Duration::from_secs(10);
