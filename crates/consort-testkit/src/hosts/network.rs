//! What a network is like, before there is one.

use std::time::Duration;

/// Hosts to be made, and the network between them. A number of hosts alone is one too.
///
/// ```no_run
/// # use std::time::Duration;
/// # use consort_testkit::{Family, Hosts, Network, Ranks, Skip};
/// # fn test() -> Result<(), Skip> {
/// let plain = Hosts::new(3)?;
/// let far = Hosts::new(Network::of(2).delay(Duration::from_millis(20)).loss(1.0))?;
/// let ranks = Ranks::new(4).on_hosts(Network::of(2).family(Family::V6).mtu(1280))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description makes no hosts"]
pub struct Network {
    pub(super) hosts: usize,
    pub(super) family: Family,
    pub(super) mtu: Option<u32>,
    pub(super) stray: bool,
    pub(super) delay: Duration,
    pub(super) loss: f64,
    pub(super) open: Option<Vec<u16>>,
}

/// Which addresses the hosts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only, except that every host knows itself as 127.0.0.1 too.
    V6,
    /// Both.
    Both,
}

impl Network {
    /// So many hosts on a fast network without flaws, with addresses of both families.
    ///
    /// # Panics
    /// Unless there are between 1 and 250.
    pub fn of(hosts: usize) -> Self {
        assert!((1..=250).contains(&hosts), "between 1 and 250 hosts, not {hosts}");
        Self {
            hosts,
            family: Family::Both,
            mtu: None,
            stray: false,
            delay: Duration::ZERO,
            loss: 0.0,
            open: None,
        }
    }

    /// Gives the hosts addresses of this family.
    pub fn family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// The largest packet that the network carries, in bytes from the IP header on.
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Gives every host a second interface, `away0`, that leads nowhere: it is up, comes first in
    /// every list, has an address that looks as good as the other, and the default route.
    pub fn stray_interface(mut self) -> Self {
        self.stray = true;
        self
    }

    /// How long a packet is on its way. Its answer takes as long again.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// How many of a hundred packets are lost.
    ///
    /// # Panics
    /// When it is not a percentage.
    pub fn loss(mut self, percent: f64) -> Self {
        assert!((0.0..=100.0).contains(&percent), "{percent} is not a percentage");
        self.loss = percent;
        self
    }

    /// Puts a firewall on every host: from other hosts it lets connections in only at these TCP
    /// ports, besides the answers to connections that the host opened itself. The rest is dropped
    /// without a word.
    pub fn firewall(mut self, open: impl IntoIterator<Item = u16>) -> Self {
        self.open = Some(open.into_iter().collect());
        self
    }

    /// Whether packets have to be real ones, of the size that a wire would carry.
    pub(super) fn counts_packets(&self) -> bool {
        self.mtu.is_some() || self.loss > 0.0 || !self.delay.is_zero()
    }
}

impl From<usize> for Network {
    fn from(hosts: usize) -> Self {
        Self::of(hosts)
    }
}

impl Family {
    pub(super) fn has_v4(self) -> bool {
        self != Self::V6
    }

    pub(super) fn has_v6(self) -> bool {
        self != Self::V4
    }
}
