//! Hosts reach each other, a cut cable is a cut cable, and a network is as bad as it was ordered.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod networks;
mod traffic;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use consort_testkit::{Hosts, Ranks, skip};

use traffic::{arrives, read_byte, speaks};

#[test]
fn hosts_reach_each_other_over_both_protocols() {
    let hosts = match Hosts::new(3) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let (from, to) = (hosts.host(from), hosts.host(to));
        assert!(speaks(from, to, to.address()));
        assert!(speaks(from, to, to.address_v6().into()));
    }
    let own = hosts.host(0);
    assert!(speaks(own, own, "127.0.0.1".parse().unwrap()));
}

#[test]
fn a_cut_cable_loses_everything_until_it_is_mended() {
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let (a, b) = (hosts.host(0), hosts.host(1));
    assert!(arrives(a, b));
    hosts.cut(1);
    assert!(!arrives(a, b));
    assert!(!arrives(b, a));
    hosts.mend(1);
    assert!(arrives(a, b));
    assert!(speaks(a, b, b.address_v6().into()));
}

#[test]
fn hosts_of_a_parted_network_reach_those_of_their_part_only() {
    let hosts = match Hosts::new(4) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    assert!(arrives(hosts.host(1), hosts.host(2)));
    hosts.part(&[2, 3]);
    for (from, to) in [(1, 2), (3, 0)] {
        assert!(!arrives(hosts.host(from), hosts.host(to)), "from {from} to {to}");
    }
    for (from, to) in [(0, 1), (3, 2)] {
        assert!(arrives(hosts.host(from), hosts.host(to)), "from {from} to {to}");
    }
}

#[test]
fn a_command_runs_on_its_host() {
    let hosts = match Hosts::new(1) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let output =
        hosts.host(0).command("ip").args(["-brief", "addr", "show", "eth0"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&hosts.host(0).address().to_string()), "{text}");
    assert!(text.contains(&hosts.host(0).address_v6().to_string()), "{text}");
}

#[test]
fn hosts_are_removed_with_their_owner_and_swept_if_it_was_killed() {
    let hosts = match Hosts::new(1) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let own = hosts.host(0).name().to_owned();
    let network = own.strip_suffix("h0").unwrap();
    assert_eq!(spaces_of(network).len(), 2);
    drop(hosts);
    assert!(spaces_of(network).is_empty());

    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let orphan = format!("consort-{}-0h0", ended.id());
    assert!(Command::new("ip").args(["netns", "add", &orphan]).status().unwrap().success());
    let later = Hosts::new(1).unwrap();
    assert!(spaces_of(&orphan).is_empty());
    drop(later);
}

#[test]
fn ranks_run_on_hosts() {
    let ranks = match Ranks::new(4).on_hosts(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let mut job = ranks.start(|ctx| {
        let own = ctx.address_of(ctx.rank()).unwrap();
        if ctx.rank() == 0 {
            let listener = TcpListener::bind(own.at(4000)).unwrap();
            ctx.reach("listening");
            return (0..3).map(|_| read_byte(&listener)).sum::<u32>();
        }
        let _: bool = ctx.told("go");
        let mut stream = TcpStream::connect(ctx.address_of(0).unwrap().at(4000)).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), own.ip());
        stream.write_all(&[ctx.rank() as u8]).unwrap();
        ctx.rank()
    });
    job.await_point(0, "listening");
    job.tell("go", &true);
    assert_eq!(job.hosts().unwrap().count(), 2);
    assert_eq!(job.expect_all(), [6, 1, 2, 3]);
}

/// The namespaces of one network: its switch and its hosts.
fn spaces_of(prefix: &str) -> Vec<String> {
    let Ok(entries) = Path::new("/run/netns").read_dir() else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}
