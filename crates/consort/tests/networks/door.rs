//! One port for all ranks of a host.

use std::time::Duration;

use consort::{Group, ReduceOp, Transport};
use consort_testkit::{Context, Network, Outcome, Ranks, skip};

use crate::meet::called;

#[test]
fn the_ranks_of_a_host_share_one_port_which_a_firewall_lets_through() {
    let network = Network::of(2).firewall([PORT]);
    let ranks = match Ranks::new(6).in_blocks().on_hosts(network) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        works(&group);
        everyone_greets_everyone(&group);
        group.barrier().unwrap();
        let ports = listening();
        group.barrier().unwrap();
        ports
    });
    let seen = job.expect_all();
    for ports in &seen[..3] {
        assert_eq!(ports.len(), 2, "the store's and one for data: {ports:?}");
        assert!(ports.contains(&PORT));
    }
    for ports in &seen[3..] {
        assert_eq!(ports, &[PORT], "one for data");
    }
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_is_an_error() {
    let ranks = match Ranks::new(2).in_blocks().on_hosts(Network::of(2)) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let address = ctx.address_of(ctx.rank()).unwrap().at(PORT + 1);
        let _taken = std::net::TcpListener::bind(address).unwrap();
        called(ctx, PORT).data_port(PORT + 1).init().unwrap_err().to_string()
    });
    for error in errors.expect_all() {
        assert!(error.contains("29401 cannot be had") && error.contains("CONSORT_PORT"), "{error}");
    }
}

#[test]
fn ranks_of_several_hosts_that_only_know_a_file_are_told_what_to_say() {
    let ranks = match Ranks::new(2).in_blocks().on_hosts(Network::of(2)) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let path = ctx.dir().join("meeting");
        let address = format!("file://{}?rank={}&world=2", path.display(), ctx.rank());
        let builder = consort::Builder::new().address(&address).unwrap();
        builder.init().unwrap_err().to_string()
    });
    for error in errors.expect_all() {
        assert!(error.contains("set CONSORT_INTERFACE to the interface"), "{error}");
    }
}

#[test]
fn ranks_are_reached_when_the_first_of_their_host_has_ended() {
    let ranks = match Ranks::new(4).in_blocks().on_hosts(Network::of(2).firewall([PORT])) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let mut job = ranks.start(|ctx| {
        let group = meet(ctx);
        let rest = group.split(Some(u32::from(group.rank() == 2)), 0).unwrap().unwrap();
        ctx.reach("split");
        if group.rank() == 2 {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        ctx.told::<()>("go on");
        everyone_greets_everyone(&rest);
    });
    (0..4).for_each(|rank| job.await_point(rank, "split"));
    job.kill(2);
    job.tell("go on", &());
    let ended = job.wait();
    for rank in [0, 1, 3] {
        assert_eq!(ended[rank], Outcome::Done(()), "rank {rank}");
    }
}

fn meet(ctx: &Context) -> Group {
    called(ctx, PORT).transport(Transport::Auto).init().unwrap()
}

/// The group combines numbers, and every rank gets them.
fn works(group: &Group) {
    let world = group.world() as u32;
    for count in [1, 1000, 300_000] {
        let mut sum = vec![group.rank().get() + 1; count];
        group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert_eq!(sum, vec![world * (world + 1) / 2; count]);
    }
}

/// Every rank sends every other a message, in turn.
fn everyone_greets_everyone(group: &Group) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    for from in 0..world {
        for to in (0..world).filter(|&to| to != from) {
            let words = [from, to];
            if me == from {
                group.send(&words, to, 0).unwrap();
            }
            if me == to {
                let mut heard = [0; 2];
                group.recv(&mut heard, from, 0).unwrap();
                assert_eq!(heard, words);
            }
        }
    }
}

/// The TCP ports that are listened on in this network namespace, in order.
fn listening() -> Vec<u16> {
    let mut ports = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (_, port) = columns[1].rsplit_once(':').unwrap();
            if columns[3] == LISTEN {
                ports.push(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports.sort_unstable();
    ports
}

/// How the kernel shows a socket that listens.
const LISTEN: &str = "0A";
const PORT: u16 = 29_400;
