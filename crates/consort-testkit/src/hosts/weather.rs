//! Delay and loss on the way to a host.

use super::network::Network;
use super::space::NameSpace;
use crate::skip::Skip;

/// Delays and loses what the switch sends to a port, as the network asks.
pub(super) fn put(network: &Network, switch: &NameSpace, port: &str) -> Result<(), Skip> {
    if network.delay.is_zero() && network.loss == 0.0 {
        return Ok(());
    }
    let delay = format!("{}us", network.delay.as_micros());
    let loss = format!("{}%", network.loss);
    let place = ["qdisc", "add", "dev", port, "root", "netem", "limit", QUEUE];
    let what = ["delay", &delay, "loss", &loss];
    match switch.attempt("tc", &[place.as_slice(), &what].concat()) {
        Ok(_) => Ok(()),
        Err(reason) => Err(Skip::new(format!("delay and loss need tc's netem: {reason}"))),
    }
}

/// How many packets may be on their way; the kernel's own limit is soon reached by a long way.
const QUEUE: &str = "100000";
