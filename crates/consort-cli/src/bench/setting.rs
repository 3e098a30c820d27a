//! What is the same for everyone who is measured in one run.

use std::fmt;
use std::process::Command;

use clap::ValueEnum;

/// How the ranks are set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// How many ranks.
    pub(crate) ranks: usize,
    /// How they reach each other.
    pub(crate) transport: Transport,
    /// How many hosts they are on.
    pub(crate) hosts: usize,
    /// Whether our own ranks' data is sealed on its way.
    pub(crate) encrypt: bool,
    /// Whether buffers lie on huge pages, as far as the kernel has some.
    pub(crate) huge_pages: bool,
    /// Whether our own ranks' buffers lie in symmetric memory.
    pub(crate) symmetric: bool,
}

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// As the library decides.
    Auto,
    /// Through shared memory.
    Shm,
    /// Through TCP, even on one host.
    Tcp,
}

impl Setting {
    /// How our own ranks reach each other then, in a word.
    pub(crate) fn transport_in_use(&self) -> &'static str {
        match self.transport {
            Transport::Tcp => "tcp",
            Transport::Auto if self.is_mixed() => "mixed",
            Transport::Auto if self.hosts > 1 => "tcp",
            Transport::Auto | Transport::Shm => "shm",
        }
    }

    /// Whether bare sockets show what there is to reach: all data goes over the loopback interface.
    pub(crate) fn is_loopback_alone(&self) -> bool {
        self.transport == Transport::Tcp && self.hosts == 1 && self.ranks > 1
    }

    /// Whether some ranks share a host and others do not, and may make something of that, which they
    /// do if there are equally many on each. Then ours are measured with TCP everywhere as well.
    pub(crate) fn is_mixed(&self) -> bool {
        let is_even = self.ranks.is_multiple_of(self.hosts);
        self.transport == Transport::Auto && self.hosts > 1 && self.ranks > self.hosts && is_even
    }

    /// Puts into a process's environment what concerns it.
    pub(crate) fn surround(&self, command: &mut Command) {
        if self.huge_pages {
            // The one switch that C, Python and Rust programs have in common.
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transport_is_said_as_it_is_used() {
        let word = |transport, ranks, hosts| {
            let (encrypt, huge_pages, symmetric) = (false, false, false);
            Setting { ranks, transport, hosts, encrypt, huge_pages, symmetric }.transport_in_use()
        };
        assert_eq!(word(Transport::Auto, 2, 1), "shm");
        assert_eq!(word(Transport::Shm, 2, 1), "shm");
        assert_eq!(word(Transport::Auto, 2, 2), "tcp");
        assert_eq!(word(Transport::Auto, 4, 2), "mixed");
        assert_eq!(word(Transport::Auto, 5, 2), "tcp");
        assert_eq!(word(Transport::Tcp, 2, 1), "tcp");
        assert_eq!(word(Transport::Tcp, 4, 2), "tcp");
    }
}
