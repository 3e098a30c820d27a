//! What is the same for everyone who is measured in one run.

use std::process::Command;

use super::args::Transport;

/// How the ranks are set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// How many ranks.
    pub(crate) ranks: usize,
    /// How they reach each other.
    pub(crate) transport: Transport,
    /// Whether buffers lie on huge pages, as far as the kernel has some.
    pub(crate) huge_pages: bool,
    /// Whether our own ranks' buffers lie in symmetric memory.
    pub(crate) symmetric: bool,
}

impl Setting {
    /// Puts into a process's environment what concerns it.
    pub(crate) fn surround(&self, command: &mut Command) {
        if self.huge_pages {
            // The one switch that C, Python and Rust programs have in common.
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
    }
}
