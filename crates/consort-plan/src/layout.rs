//! Which ranks share a host.

/// The ranks of each host, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    hosts: Vec<Vec<u32>>,
    /// Of each rank: its host, and its number there.
    seats: Vec<(u32, u32)>,
}

impl Layout {
    /// From each rank's host. Hosts are numbered in the order in which they come up.
    pub fn new<H: PartialEq>(host_of_rank: &[H]) -> Self {
        let mut names: Vec<&H> = Vec::new();
        let (mut hosts, mut seats) = (Vec::new(), Vec::new());
        for (rank, name) in (0..).zip(host_of_rank) {
            let host = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                hosts.push(Vec::new());
                names.len() - 1
            });
            seats.push((host as u32, hosts[host].len() as u32));
            hosts[host].push(rank);
        }
        Self { hosts, seats }
    }

    /// So many ranks on so many hosts, one host after the other, the first ones with one more where
    /// it does not come out even.
    ///
    /// # Panics
    /// When there are no hosts, or fewer ranks than hosts.
    pub fn even(world: u32, hosts: u32) -> Self {
        assert!(0 < hosts && hosts <= world, "every host has a rank");
        let (each, more) = (world / hosts, world % hosts);
        let (mut ranks, mut seats, mut start) = (Vec::new(), Vec::new(), 0);
        for host in 0..hosts {
            let end = start + each + u32::from(host < more);
            seats.extend((0..end - start).map(|number| (host, number)));
            ranks.push((start..end).collect());
            start = end;
        }
        Self { hosts: ranks, seats }
    }

    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        self.seats.len() as u32
    }

    /// How many hosts there are.
    pub fn count(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The ranks of a host.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn ranks(&self, host: u32) -> &[u32] {
        &self.hosts[host as usize]
    }

    /// The host of a rank.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn host(&self, rank: u32) -> u32 {
        self.seats[rank as usize].0
    }

    /// A rank's number on its host.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn local(&self, rank: u32) -> u32 {
        self.seats[rank as usize].1
    }

    /// Whether two ranks share a host.
    pub fn together(&self, one: u32, other: u32) -> bool {
        self.host(one) == self.host(other)
    }

    /// Whether all hosts have as many ranks.
    pub fn is_even(&self) -> bool {
        self.hosts.iter().all(|ranks| ranks.len() == self.hosts[0].len())
    }

    /// Whether the ranks of every host follow each other, host after host.
    pub fn is_in_order(&self) -> bool {
        self.seats.is_sorted()
    }
}
