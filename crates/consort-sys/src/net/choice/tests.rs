use super::*;

fn interface(index: u32, name: &str, up: bool, addresses: &[&str]) -> Interface {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| ip(text)).collect();
    let loopback = addresses.iter().any(IpAddr::is_loopback);
    Interface { name: name.into(), index, up, loopback, addresses, megabits: None, mtu: None }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn host() -> Vec<Interface> {
    vec![
        interface(1, "lo", true, &["127.0.0.1", "::1"]),
        interface(2, "eth0", true, &["10.0.0.1", "fd00::1", "fe80::1"]),
        interface(3, "ib0", false, &["10.9.0.1"]),
        interface(4, "wlan0", true, &["192.168.0.1", "fe80::1"]),
    ]
}

fn wanted(wanted: &str, peer: Option<&str>) -> Result<Choice> {
    There(&host()).wanted(wanted, peer.map(ip))
}

#[test]
fn a_name_gives_the_address_of_the_peers_family() {
    assert_eq!(wanted("eth0", None).unwrap().address, ip("10.0.0.1"));
    assert_eq!(wanted("eth0", Some("10.0.0.2")).unwrap().address, ip("10.0.0.1"));
    let choice = wanted("eth0", Some("fd00::2")).unwrap();
    assert_eq!((choice.address, choice.scope), (ip("fd00::1"), 0));
}

#[test]
fn an_address_gives_its_interface() {
    let choice = wanted("192.168.0.1", None).unwrap();
    assert_eq!(choice.to_string(), "wlan0 (192.168.0.1): it was asked for");
}

#[test]
fn a_link_local_address_carries_the_number_of_its_interface() {
    let choice = wanted("fe80::1%wlan0", None).unwrap();
    assert_eq!((choice.interface.as_str(), choice.scope), ("wlan0", 4));
    assert_eq!(choice.socket(5), "[fe80::1%4]:5".parse().unwrap());
    assert_eq!(wanted("fe80::1%2", None).unwrap().interface, "eth0");
}

#[test]
fn an_unknown_name_or_address_lists_what_there_is() {
    for unknown in ["eth9", "10.0.0.77", "fe80::1%eth9", ""] {
        let error = wanted(unknown, None).unwrap_err();
        assert!(matches!(error, Error::NotHere { .. }), "{error}");
        assert!(error.to_string().contains("eth0 (10.0.0.1, fd00::1, fe80::1)"), "{error}");
    }
}

#[test]
fn an_interface_that_is_down_is_refused_and_the_others_named() {
    for name in ["ib0", "10.9.0.1"] {
        let error = wanted(name, None).unwrap_err();
        assert!(matches!(error, Error::Down { .. }), "{error}");
        assert!(error.to_string().contains("wlan0") && !error.to_string().contains("10.9.0.1"));
    }
}

#[test]
fn an_interface_without_the_peers_family_is_refused() {
    let four_only = [interface(2, "eth0", true, &["10.0.0.1"])];
    let error = There(&four_only).wanted("eth0", Some(ip("fd00::2"))).unwrap_err();
    assert!(error.to_string().contains("no IPv6 address"), "{error}");
    let error = wanted("10.0.0.1", Some("fd00::2")).unwrap_err();
    assert!(matches!(error, Error::Family { .. }), "{error}");
}

#[test]
fn loopback_is_refused_for_a_peer_elsewhere_but_not_for_one_here() {
    let error = wanted("lo", Some("10.0.0.2")).unwrap_err();
    assert!(matches!(error, Error::OnlyThisHost { .. }), "{error}");
    assert_eq!(wanted("lo", Some("10.0.0.1")).unwrap().address, ip("127.0.0.1"));
    assert_eq!(wanted("lo", Some("::1")).unwrap().address, ip("::1"));
}

#[test]
fn the_interface_that_routes_to_the_peer_is_chosen_with_the_reason() {
    let host = host();
    let choice = There(&host).routed(ip("10.0.0.2"), || Ok(ip("10.0.0.1"))).unwrap();
    assert_eq!(choice.to_string(), "eth0 (10.0.0.1): it routes to 10.0.0.2");
}

#[test]
fn no_route_and_nobodys_address_are_errors() {
    let host = host();
    let there = There(&host);
    let no_route = || Err(io::Error::from(io::ErrorKind::NetworkUnreachable));
    let error = there.routed(ip("10.77.0.2"), no_route).unwrap_err();
    assert!(error.to_string().starts_with("no route leads to 10.77.0.2"), "{error}");
    let error = there.routed(ip("10.77.0.2"), || Ok(ip("10.77.0.1"))).unwrap_err();
    assert!(matches!(error, Error::Nameless { .. }), "{error}");
    let error = there.routed(ip("0.0.0.0"), || panic!("must not be asked")).unwrap_err();
    assert!(matches!(error, Error::Unspecified { .. }), "{error}");
}

#[test]
fn without_a_peer_the_address_is_loopback() {
    let choice = There(&host()).loopback().unwrap();
    assert_eq!(choice.to_string(), "lo (127.0.0.1): one-host job");
    let down = [interface(1, "lo", false, &["127.0.0.1"])];
    assert!(matches!(There(&down).loopback(), Err(Error::NoLoopback)));
}

#[test]
fn on_this_host_loopback_leads_to_loopback() {
    let alone = choose(None, None).unwrap();
    assert!(alone.address.is_loopback(), "{alone}");
    let routed = choose(Some("127.0.0.1:1".parse().unwrap()), None).unwrap();
    assert_eq!(routed.address, ip("127.0.0.1"));
    let mapped = choose(Some("[::ffff:127.0.0.1]:1".parse().unwrap()), None).unwrap();
    assert_eq!(mapped.address, ip("127.0.0.1"));
    let named = choose(None, Some(&alone.interface)).unwrap();
    assert_eq!(named.address, alone.address);
    std::net::TcpListener::bind(named.socket(0)).unwrap();
}
