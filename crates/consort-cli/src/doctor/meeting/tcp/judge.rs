//! Judging a visit.

use std::net::SocketAddr;
use std::time::Duration;

use consort_store::HandshakeError;

use super::measure::Figures;
use super::{CONNECT_LIMIT, Silence, TcpVisit, Welcome};
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words::{bytes, time};

/// Judges a visit to `address`.
pub(crate) fn check(address: &str, visit: &TcpVisit) -> Vec<Finding> {
    match visit {
        TcpVisit::Unresolved { reason } => {
            let what = format!("{address} cannot be found: {reason}");
            let todo = "check the spelling, /etc/hosts and DNS, or give the host's number";
            vec![Finding::bad(Area::Meeting, what, todo)]
        }
        TcpVisit::Unreached { first, silence } => vec![unreached(address, *first, silence)],
        TcpVisit::Reached { peer, took, welcome } => {
            let mut findings = vec![reached(address, *peer, *took)];
            findings.extend(welcomed(welcome));
            findings
        }
    }
}

fn unreached(address: &str, first: SocketAddr, silence: &Silence) -> Finding {
    let at = named(address, first);
    let (what, todo) = match silence {
        Silence::Refused => (
            format!("nobody listens at {at}"),
            format!("start `consort run --rdzv tcp://{address} …` there first; is the port right?"),
        ),
        Silence::NoAnswer => (
            format!("{at} does not answer within {}", time(CONNECT_LIMIT)),
            "is the host up? A firewall on the way may drop the port: open it".to_owned(),
        ),
        Silence::Other(why) => (
            format!("{at} cannot be reached: {why}"),
            "check the route: ip route get, ping".to_owned(),
        ),
    };
    Finding::bad(Area::Meeting, what, todo)
}

fn reached(address: &str, peer: SocketAddr, took: Duration) -> Finding {
    let at = named(address, peer);
    Finding::good(Area::Meeting, format!("{at} takes connections, in {}", time(took)))
}

fn welcomed(welcome: &Welcome) -> Vec<Finding> {
    match welcome {
        Welcome::NoSecret => vec![Finding::warning(
            Area::Meeting,
            "not tested whether it lets us in, nor how fast it is",
            "give the job's secret: --secret-file FILE",
        )],
        // The secret's own line says what is wrong with it.
        Welcome::UnreadableSecret => Vec::new(),
        Welcome::TurnedAway(reason) => vec![turned_away(reason)],
        Welcome::Broken(reason) => vec![Finding::bad(
            Area::Meeting,
            reason.clone(),
            "is it consort that listens there, and is it running (not stopped)?",
        )],
        Welcome::In(figures) => vec![round_trip(figures), throughput(figures)],
    }
}

fn turned_away(reason: &HandshakeError) -> Finding {
    let todo = match reason {
        HandshakeError::Secret => "copy the secret file of that job to this host, and give it here",
        HandshakeError::Version { .. } => "install the same version of consort on every host",
        HandshakeError::NotConsort => "another program has that port: choose another one",
        _ => "look at the log of the host that runs the meeting",
    };
    Finding::bad(Area::Meeting, format!("it does not let us in: {reason}"), todo)
}

fn round_trip(figures: &Figures) -> Finding {
    let what = format!(
        "the secret is right; round trip {} (median of {})",
        time(figures.round_trip),
        figures.rounds
    );
    if figures.round_trip > FAR {
        return Finding::warning(Area::Meeting, what, "far or busy: give jobs longer time limits");
    }
    Finding::good(Area::Meeting, what)
}

fn throughput(figures: &Figures) -> Finding {
    let speed = |rate: f64| format!("{}/s", bytes(rate as u64));
    let what = format!("{} there, {} back, encrypted", speed(figures.there), speed(figures.back));
    if figures.there.min(figures.back) < SLOW {
        let todo = "slow: is this the interface you meant (CONSORT_INTERFACE)?";
        return Finding::warning(Area::Meeting, what, todo);
    }
    Finding::good(Area::Meeting, what)
}

/// `host0:29400 (10.0.0.1)`, or the address alone when it was given as a number.
fn named(address: &str, peer: SocketAddr) -> String {
    if address == peer.to_string() {
        address.to_owned()
    } else {
        format!("{address} ({})", peer.ip())
    }
}

const FAR: Duration = Duration::from_millis(5);
const SLOW: f64 = (8 << 20) as f64;
