//! Interfaces, the chosen one, loopback and ports.

use consort_sys::net::Interface;

use crate::doctor::facts::{Loopback, Network};
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;

/// Which ways lead out.
pub(crate) fn interfaces(network: &Network) -> Finding {
    let all = match &network.interfaces {
        Ok(all) => all,
        Err(error) => {
            let what = format!("the network interfaces cannot be listed: {error}");
            return Finding::bad(
                Area::Network,
                what,
                "is this sandbox allowed to use the network?",
            );
        }
    };
    let out: Vec<&Interface> =
        all.iter().filter(|interface| interface.up && !interface.loopback).collect();
    if out.is_empty() {
        let what = "no interface leads to other hosts: jobs on this host only";
        return Finding::warning(
            Area::Network,
            what,
            "connect it, if jobs are to have several hosts",
        );
    }
    let mut shown: Vec<String> =
        out.iter().take(SHOWN).map(|interface| describe(interface)).collect();
    if out.len() > SHOWN {
        shown.push(format!("{} more", out.len() - SHOWN));
    }
    Finding::good(Area::Network, shown.join("; "))
}

/// What a job would listen on, and why.
pub(crate) fn choice(network: &Network) -> Finding {
    match (&network.choice, &network.wanted) {
        (Ok(choice), wanted) => {
            let reason = match wanted {
                Some(wanted) => format!("CONSORT_INTERFACE={wanted}"),
                None => choice.reason.clone(),
            };
            let mut what =
                format!("jobs listen on {} ({}): {reason}", choice.interface, choice.address);
            if let (Some(abroad), None) = (&network.abroad, wanted) {
                what += &format!(
                    "; with other hosts, {} ({}) if they are beyond the default route",
                    abroad.interface, abroad.address
                );
            }
            Finding::good(Area::Network, what)
        }
        (Err(error), Some(_)) => Finding::bad(
            Area::Network,
            format!("CONSORT_INTERFACE: {error}"),
            "change or unset CONSORT_INTERFACE",
        ),
        (Err(error), None) => Finding::bad(
            Area::Network,
            error.clone(),
            "check ip addr and ip route, or name the interface to use in CONSORT_INTERFACE",
        ),
    }
}

/// Whether a process can talk to itself.
pub(crate) fn loopback(network: &Network) -> Finding {
    match (&network.v4, &network.v6) {
        (Loopback::Works, Loopback::Works) => {
            Finding::good(Area::Network, "loopback works over IPv4 and IPv6")
        }
        (Loopback::Works, Loopback::Off) => {
            Finding::good(Area::Network, "loopback works over IPv4; IPv6 is off")
        }
        (Loopback::Off, Loopback::Works) => {
            Finding::good(Area::Network, "loopback works over IPv6; IPv4 is off")
        }
        (Loopback::Works, Loopback::Fails(why)) => {
            let what = format!("loopback works over IPv4 but not over IPv6: {why}");
            Finding::warning(Area::Network, what, "give addresses of IPv4 only")
        }
        (Loopback::Fails(why), _) | (Loopback::Off, Loopback::Fails(why)) => Finding::bad(
            Area::Network,
            format!("this host cannot talk to itself: {why}"),
            "ip link set lo up; is a firewall dropping loopback?",
        ),
        (Loopback::Off, Loopback::Off) => Finding::bad(
            Area::Network,
            "loopback has no address",
            "ip link set lo up (a new network namespace has it down)",
        ),
    }
}

/// Whether the system has free ports to give.
pub(crate) fn ports(network: &Network) -> Finding {
    let Some(range) = &network.free_ports else {
        return Finding::good(Area::Network, "free ports: the system's choice");
    };
    let what = format!("free ports: {} to {}", range.start(), range.end());
    if range.len() < FEW_PORTS {
        let todo =
            "sysctl net.ipv4.ip_local_port_range=\"32768 60999\": every connection takes one";
        return Finding::warning(Area::Network, what, todo);
    }
    Finding::good(Area::Network, what)
}

/// `eth0 10.0.0.1, fd00::1 (10 Gbit/s, packets of 9000)`.
fn describe(interface: &Interface) -> String {
    let wide = interface.addresses.iter().filter(|address| !is_link_local(address));
    let addresses: Vec<String> = wide.map(|address| address.to_string()).collect();
    let figures: Vec<String> =
        [interface.megabits.map(speed), interface.mtu.map(|mtu| format!("packets of {mtu}"))]
            .into_iter()
            .flatten()
            .collect();
    let addresses = match addresses.as_slice() {
        [] => "with link-local addresses only".to_owned(),
        some => words::list(some),
    };
    match figures.as_slice() {
        [] => format!("{} {addresses}", interface.name),
        some => format!("{} {addresses} ({})", interface.name, some.join(", ")),
    }
}

fn speed(megabits: u32) -> String {
    if megabits >= 1000 && megabits.is_multiple_of(1000) {
        format!("{} Gbit/s", megabits / 1000)
    } else {
        format!("{megabits} Mbit/s")
    }
}

fn is_link_local(address: &std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(v4) => v4.is_link_local(),
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

const SHOWN: usize = 4;
const FEW_PORTS: usize = 1024;

#[cfg(test)]
mod tests {
    use consort_sys::net::Choice;

    use super::*;
    use crate::doctor::finding::Verdict;

    fn interface(name: &str, up: bool, address: &str) -> Interface {
        let addresses = vec![address.parse().unwrap(), "fe80::1".parse().unwrap()];
        Interface {
            name: name.into(),
            index: 1,
            up,
            loopback: addresses[0] == std::net::IpAddr::from([127, 0, 0, 1]),
            addresses,
            megabits: Some(10_000),
            mtu: Some(9000),
        }
    }

    fn chosen(interface: &str, address: &str) -> Choice {
        let address = address.parse().unwrap();
        Choice { interface: interface.into(), address, scope: 0, reason: "one-host job".into() }
    }

    fn network() -> Network {
        Network {
            interfaces: Ok(vec![
                interface("lo", true, "127.0.0.1"),
                interface("eth0", true, "10.0.0.1"),
                interface("eth1", false, "10.1.0.1"),
            ]),
            wanted: None,
            choice: Ok(chosen("lo", "127.0.0.1")),
            abroad: Some(chosen("eth0", "10.0.0.1")),
            v4: Loopback::Works,
            v6: Loopback::Works,
            free_ports: Some(32768..=60999),
        }
    }

    #[test]
    fn interfaces_that_are_up_are_shown_with_their_figures() {
        let finding = interfaces(&network());
        assert_eq!(finding.verdict, Verdict::Good);
        assert_eq!(finding.what, "eth0 10.0.0.1 (10 Gbit/s, packets of 9000)");
        let many = (0..9).map(|n| interface(&format!("e{n}"), true, "10.0.0.1")).collect();
        let finding = interfaces(&Network { interfaces: Ok(many), ..network() });
        assert!(finding.what.ends_with("; 5 more"), "{}", finding.what);
    }

    #[test]
    fn loopback_alone_is_a_warning_and_no_list_is_bad() {
        let alone = Ok(vec![interface("lo", true, "127.0.0.1")]);
        let finding = interfaces(&Network { interfaces: alone, ..network() });
        assert_eq!(finding.verdict, Verdict::Warning);
        let finding = interfaces(&Network { interfaces: Err("no".into()), ..network() });
        assert_eq!(finding.verdict, Verdict::Bad);
    }

    #[test]
    fn the_choice_is_told_with_its_reason() {
        let finding = choice(&network());
        assert!(
            finding.what.starts_with("jobs listen on lo (127.0.0.1): one-host job; with other")
        );
        let wanted = Some("lo".to_owned());
        let finding = choice(&Network { wanted, ..network() });
        assert_eq!(finding.what, "jobs listen on lo (127.0.0.1): CONSORT_INTERFACE=lo");
    }

    #[test]
    fn a_choice_that_cannot_be_made_is_bad() {
        let broken = Network { choice: Err("\"ib9\" is not here".into()), ..network() };
        assert_eq!(choice(&broken).verdict, Verdict::Bad);
        let finding = choice(&Network { wanted: Some("ib9".into()), ..broken });
        assert!(finding.todo.unwrap().contains("unset CONSORT_INTERFACE"));
    }

    #[test]
    fn loopback_must_work_over_one_version_at_least() {
        use Loopback::{Off, Works};
        let fails = || Loopback::Fails("refused".into());
        let verdict = |v4, v6| loopback(&Network { v4, v6, ..network() }).verdict;
        assert_eq!(verdict(Works, Works), Verdict::Good);
        assert_eq!(verdict(Works, Off), Verdict::Good);
        assert_eq!(verdict(Off, Works), Verdict::Good);
        assert_eq!(verdict(Works, fails()), Verdict::Warning);
        assert_eq!(verdict(fails(), Works), Verdict::Bad);
        assert_eq!(verdict(Off, fails()), Verdict::Bad);
        assert_eq!(verdict(Off, Off), Verdict::Bad);
    }

    #[test]
    fn few_free_ports_are_a_warning() {
        let verdict = |free_ports| ports(&Network { free_ports, ..network() }).verdict;
        assert_eq!(verdict(Some(32768..=60999)), Verdict::Good);
        assert_eq!(verdict(Some(50000..=50099)), Verdict::Warning);
        assert_eq!(verdict(None), Verdict::Good);
    }
}
