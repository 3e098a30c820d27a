//! The state of this machine, gathered without judging it.

mod engines;
pub(crate) mod files;
mod network;
mod python;
pub(crate) mod reach;
mod system;

use std::net::SocketAddr;
use std::path::Path;

use consort_sys::clock::Clock;
use consort_sys::limits::ResourceLimits;
use consort_sys::memory::Memory;
use consort_sys::topo::Topology;

pub(crate) use engines::Engines;
pub(crate) use files::Files;
pub(crate) use network::{Loopback, Network};
pub(crate) use python::Python;
pub(crate) use reach::Sharing;
pub(crate) use system::System;

/// Everything that the checks look at.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) system: System,
    pub(crate) topology: Topology,
    pub(crate) memory: Memory,
    pub(crate) sharing: Sharing,
    pub(crate) limits: ResourceLimits,
    pub(crate) network: Network,
    pub(crate) clock: Clock,
    pub(crate) files: Files,
    /// The environment's variables. Those that are not text are nobody's we know.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) python: Python,
    pub(crate) engines: Engines,
    /// Whether the job is known to have another host.
    pub(crate) several_hosts: bool,
}

impl Facts {
    /// Looks at everything once. Takes a moment, because of Python.
    pub(crate) fn gather(secret_file: Option<&Path>) -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self {
            system: System::gather(),
            topology: Topology::here(),
            memory: Memory::here(),
            sharing: Sharing::gather(),
            limits: ResourceLimits::here(),
            network: Network::gather(),
            clock: Clock::here(),
            files: Files::gather(secret_file),
            variables: variables.collect(),
            python: Python::gather(),
            engines: Engines::gather(),
            several_hosts: false,
        }
    }

    /// Takes into account where the others of a job are.
    pub(crate) fn toward(&mut self, peer: SocketAddr) {
        self.network.toward(peer);
        self.several_hosts = !peer.ip().to_canonical().is_loopback();
    }
}
