//! Several hosts on this machine: network namespaces on one switch.
//!
//! They have no names, only descriptors, so they end with this process and with those in them,
//! however those end.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Hosts that reach each other and nothing else.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<NameSpace>,
    // Without it the cables would be gone.
    _switch: NameSpace,
}

impl Hosts {
    /// Makes so many.
    ///
    /// # Errors
    /// When the system does not let us, what it says and what is needed.
    pub(crate) fn new(count: usize) -> Result<Self, String> {
        Self::make(count).map_err(|why| {
            format!("{why}\n    --hosts needs root and the program ip (package iproute2)")
        })
    }

    fn make(count: usize) -> Result<Self, String> {
        let switch = NameSpace::new()?;
        switch.ip("link add switch type bridge")?;
        switch.ip("link set switch up")?;
        let mut hosts = Vec::new();
        for index in 0..count {
            let host = NameSpace::new()?;
            let path = host.path();
            switch.ip(&format!("link add port{index} type veth peer name eth0 netns {path}"))?;
            switch.ip(&format!("link set port{index} master switch up"))?;
            host.ip("link set lo up")?;
            host.ip(&format!("address add {}/24 dev eth0", address(index)))?;
            host.ip("link set eth0 up")?;
            hosts.push(host);
        }
        Ok(Self { hosts, _switch: switch })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Any port on the first one.
    pub(crate) fn anywhere(&self) -> SocketAddr {
        (address(0), 0).into()
    }

    /// Runs a closure on the first one: the sockets that it opens are that host's.
    pub(crate) fn on_first<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, String> {
        self.hosts[0].run(body)
    }

    /// What a process opens to [`enter`] one of them, as long as this one lives.
    pub(crate) fn path(&self, host: usize) -> String {
        self.hosts[host].path()
    }
}

/// Puts the calling thread, and all that it starts, on a host.
///
/// # Errors
/// When there is none, or it may not.
pub(crate) fn enter(path: &str) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot get on the host {path}: {error}");
    let space = File::open(path).map_err(|error| cannot(&error))?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(space.as_fd(), network).map_err(|error| cannot(&error))
}

/// A network of its own, held by an open file.
#[derive(Debug)]
struct NameSpace(File);

impl NameSpace {
    fn new() -> Result<Self, String> {
        // `ip` knows no other way to make one than with a name, which is needed for a moment only.
        let name = format!("consort-bench-{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let space = File::open(format!("/run/netns/{name}"));
        ip(&format!("netns delete {name}"))?;
        space.map(Self).map_err(|error| format!("/run/netns/{name}: {error}"))
    }

    fn ip(&self, line: &str) -> Result<(), String> {
        self.run(|| ip(line))?
    }

    fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, String> {
        let path = self.path();
        thread::scope(|scope| {
            let inside = scope.spawn(|| enter(&path).map(|()| body()));
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

fn ip(line: &str) -> Result<(), String> {
    let output = Command::new("ip").args(line.split(' ')).output();
    let output = output.map_err(|error| format!("cannot run `ip {line}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {line}` was refused: {}", words.trim()))
}

/// Nobody else is on their network, so any will do.
fn address(host: usize) -> Ipv4Addr {
    let last = u8::try_from(host + 1).expect("the command line allows only a few");
    Ipv4Addr::new(10, 77, 0, last)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use consort_testkit::skip;

    use super::*;

    #[test]
    fn hosts_reach_each_other_and_nobody_else_does() {
        let hosts = match Hosts::new(3) {
            Ok(hosts) => hosts,
            Err(reason) => return skip(reason),
        };
        let listener = hosts.on_first(|| TcpListener::bind(hosts.anywhere())).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        for host in &hosts.hosts[1..] {
            let near = host.run(|| TcpStream::connect(address)).unwrap().unwrap();
            let (mut far, from) = listener.accept().unwrap();
            assert_eq!(near.local_addr().unwrap(), from);
            drop(near);
            assert_eq!(far.read(&mut [0]).unwrap(), 0);
        }
        let network = |path: &str| fs::read_link(path).unwrap();
        let first = hosts.on_first(|| network("/proc/thread-self/ns/net")).unwrap();
        assert_ne!(first, network("/proc/self/ns/net"), "this process stays where it was");
        let names = fs::read_dir("/run/netns").unwrap().flatten();
        let prefix = format!("consort-bench-{}", std::process::id());
        let left = names.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix));
        assert_eq!(left.count(), 0, "nothing has to be removed");
    }

    #[test]
    fn a_host_that_is_gone_cannot_be_entered() {
        let why = enter("/proc/0/fd/0").unwrap_err();
        assert!(why.starts_with("cannot get on the host /proc/0/fd/0: "), "{why}");
    }
}
