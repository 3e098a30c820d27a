//! Named network namespaces.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::tools::run;
use crate::skip::Skip;

/// A named network namespace, removed when dropped, and with it all interfaces in it.
#[derive(Debug)]
pub(super) struct NameSpace {
    name: String,
}

impl NameSpace {
    pub(super) fn new(name: String) -> Result<Self, Skip> {
        run("ip", &["netns", "add", &name])?;
        Ok(Self { name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// For what a system may not have: `ip`, `tc` or `bridge` in this namespace.
    pub(super) fn attempt(&self, program: &str, arguments: &[&str]) -> Result<String, Skip> {
        run(program, &[&["-netns", &self.name], arguments].concat())
    }

    /// For what every system that has namespaces can do.
    pub(super) fn ip(&self, arguments: &[&str]) -> String {
        self.attempt("ip", arguments).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs a closure in this namespace.
    pub(super) fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let space = File::open(Path::new(SPACES).join(&self.name)).expect("the host exists");
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("who made the host may enter it");
                body()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for NameSpace {
    fn drop(&mut self) {
        if let Err(failure) = run("ip", &["netns", "delete", &self.name]) {
            eprintln!("{failure}");
        }
    }
}

/// The name of one switch and its hosts: `consort-<process>-<number>`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) number: u8,
}

impl Label {
    /// One that this process has not used before.
    pub(super) fn next() -> Self {
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *next;
        *next = next.checked_add(1).expect("a test process makes at most 255 networks");
        Self { number }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}", std::process::id(), self.number)
    }
}

static NEXT: Mutex<u8> = Mutex::new(0);

pub(super) const PREFIX: &str = "consort-";
pub(super) const SPACES: &str = "/run/netns";
