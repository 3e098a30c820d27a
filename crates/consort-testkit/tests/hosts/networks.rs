//! Networks as bad as they were ordered.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use consort_testkit::{Family, Host, Hosts, Network, Ranks, skip};

use super::traffic::{PATIENCE, arrives, arriving, connect, round_trip, send, speaks};

#[test]
fn hosts_have_addresses_of_their_family_only_and_can_use_them_at_once() {
    for family in [Family::V4, Family::V6, Family::Both] {
        let hosts = match Hosts::new(Network::of(2).family(family)) {
            Ok(hosts) => hosts,
            Err(reason) => return skip(reason),
        };
        let (a, b) = (hosts.host(0), hosts.host(1));
        assert_eq!(print(a, "ip -6 addr show tentative"), "");
        assert!(speaks(a, b, b.address()));
        let shown = print(a, "ip -brief addr show eth0");
        let (v4, v6) = (a.addresses().v4, a.addresses().v6);
        assert_eq!((v4.is_some(), v6.is_some()), (family != Family::V6, family != Family::V4));
        assert_eq!(shown.contains("10."), v4.is_some(), "{shown}");
        assert_eq!(shown.contains("fd00:"), v6.is_some(), "{shown}");
        assert_eq!(shown.contains("fe80:"), v6.is_some(), "{shown}");
        if let Some(v6) = b.addresses().v6 {
            assert!(speaks(a, b, v6.into()));
        }
    }
}

#[test]
fn a_stray_interface_comes_first_has_the_default_route_and_leads_nowhere() {
    let hosts = match Hosts::new(Network::of(2).stray_interface()) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let (a, b) = (hosts.host(0), hosts.host(1));
    let links = print(a, "ip -brief link");
    let names: Vec<_> = links.lines().filter_map(|line| line.split(['@', ' ']).next()).collect();
    assert_eq!(names, ["lo", "away0", "eth0"]);
    assert!(links.lines().all(|line| line.contains("LOWER_UP")), "{links}");
    assert!(print(a, "ip route get 192.0.2.1").contains("dev away0"));
    assert!(print(a, "ip route get 2001:db8::1").contains("dev away0"));

    let stray = b.stray_addresses().unwrap();
    for address in [IpAddr::from(stray.v4.unwrap()), stray.v6.unwrap().into()] {
        assert!(speaks(b, b, address));
        let listener = b.run(|| TcpListener::bind(SocketAddr::new(address, 0))).unwrap();
        connect(a, listener.local_addr().unwrap(), A_WHILE).unwrap_err();
    }
    assert!(speaks(a, b, b.address()));
    assert!(speaks(b, a, a.address_v6().into()));
}

#[test]
fn no_packet_is_larger_than_the_network_carries() {
    let hosts = match Hosts::new(Network::of(2).mtu(1280)) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let (a, b) = (hosts.host(0), hosts.host(1));
    for address in [b.address(), b.address_v6().into()] {
        let before = received(b);
        send(a, b, address, 1 << 20);
        let after = received(b);
        let (bytes, packets) = (after.0 - before.0, after.1 - before.1);
        assert!(bytes > 1 << 20, "{bytes} bytes");
        let size = bytes / packets;
        assert!((1000..=1280 + ETHERNET_HEADER).contains(&size), "{size} bytes a packet");
    }
}

#[test]
fn a_long_way_takes_its_time() {
    let hosts = match Hosts::new(Network::of(3).delay(Duration::from_millis(20))) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let best = round_trip(hosts.host(from), hosts.host(to));
        assert!(best >= Duration::from_millis(40), "there and back in {best:?}");
    }
}

#[test]
fn a_lossy_way_loses_about_as_many_as_it_should() {
    let hosts = match Hosts::new(Network::of(2).loss(20.0)) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let (a, b) = (hosts.host(0), hosts.host(1));
    // The question where the other is may be lost as well, and is not asked often.
    assert!((0..20).any(|_| arrives(a, b)));
    let arrived = arriving(a, b, 1000);
    assert!((500..=950).contains(&arrived), "{arrived} of 1000 datagrams arrived");
}

#[test]
fn a_connection_survives_a_long_and_lossy_way() {
    let way = Network::of(2).delay(Duration::from_millis(20)).loss(1.0).mtu(1280);
    let hosts = match Hosts::new(way) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    let (a, b) = (hosts.host(0), hosts.host(1));
    send(a, b, b.address(), 200_000);
    send(b, a, a.address_v6().into(), 200_000);
    hosts.cut(1);
    assert!(!arrives(a, b));
    hosts.mend(1);
    assert!(arrives(a, b));
}

#[test]
fn a_firewall_lets_in_only_open_ports_and_answers() {
    let hosts = match Hosts::new(Network::of(2).firewall([OPEN, OPEN + 1])) {
        Ok(hosts) => hosts,
        Err(reason) => return skip(reason),
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let (from, to) = (hosts.host(from), hosts.host(to));
        for address in [to.address(), to.address_v6().into()] {
            let listen = |port| to.run(|| TcpListener::bind(SocketAddr::new(address, port)));
            for open in [OPEN, OPEN + 1] {
                let listener = listen(open).unwrap();
                let mut here = connect(from, (address, open).into(), PATIENCE).unwrap();
                let mut there = listener.accept().unwrap().0;
                passes(&mut here, &mut there);
                passes(&mut there, &mut here);
            }
            let _listener = listen(SHUT).unwrap();
            let blocked = connect(from, (address, SHUT).into(), A_WHILE).unwrap_err();
            assert_eq!(blocked.kind(), io::ErrorKind::TimedOut);
            connect(to, (address, SHUT).into(), PATIENCE).unwrap();
        }
        assert!(!arrives(from, to));
    }
}

#[test]
fn ranks_fill_one_host_after_the_other_if_they_are_to() {
    let ranks = match Ranks::new(4).in_blocks().on_hosts(Network::of(2).family(Family::V6)) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        let own = ctx.address_of(ctx.rank()).unwrap().ip();
        TcpListener::bind((own, 0)).unwrap();
        own
    });
    let addresses = found.hosts().unwrap().addresses();
    let [first, second] = [addresses[0].ip(), addresses[1].ip()];
    assert_eq!(found.expect_all(), [first, first, second, second]);
}

/// Sees that a byte gets through.
fn passes(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(&[5]).unwrap();
    let mut byte = [0];
    to.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [5]);
}

/// What a command prints on a host.
fn print(host: &Host, command: &str) -> String {
    let mut words = command.split(' ');
    let output = host.command(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The bytes and packets that have come in at a host.
fn received(host: &Host) -> (u64, u64) {
    let shown = print(host, "ip -statistics link show eth0");
    let numbers = shown.lines().skip_while(|line| !line.contains("RX:")).nth(1).unwrap();
    let mut numbers = numbers.split_whitespace().map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Long enough for a connection that can be made, short enough to wait for one that cannot.
const A_WHILE: Duration = Duration::from_millis(700);

const OPEN: u16 = 29400;
const SHUT: u16 = 29500;
const ETHERNET_HEADER: u64 = 14;
