//! Delay and loss: by the kernel where it can, else by a relay of our own.

use std::fmt::Display;
use std::time::Duration;

use super::SWITCH;
use super::host::port;
use super::network::Network;
use super::relay::Relay;
use super::space::{Label, NameSpace};
use crate::skip::Skip;

/// What happens to packets between the hosts.
#[derive(Debug)]
pub(super) enum Weather {
    /// Nothing.
    Fair,
    /// The kernel delays and loses them.
    Netem { delay: Duration, loss: f64 },
    /// A thread of this process does.
    Relayed(Relay),
}

impl Weather {
    /// The weather that a network asks for.
    pub(super) fn new(network: &Network, label: Label, switch: &NameSpace) -> Result<Self, Skip> {
        let (delay, loss) = (network.delay, network.loss);
        if delay.is_zero() && loss == 0.0 {
            return Ok(Self::Fair);
        }
        // Nothing passes the switch's own interface: there it shows whether the kernel can.
        let Err(refused) = netem(switch, SWITCH, delay, loss) else {
            return Ok(Self::Netem { delay, loss });
        };
        match Relay::start(network, label, switch) {
            Ok(relay) => {
                eprintln!("a relay in user space delays and loses packets here, since {refused}");
                Ok(Self::Relayed(relay))
            }
            Err(reason) => Err(too_fair(&format!("{refused}; {reason}"))),
        }
    }

    /// Connects a host's port to the others.
    pub(super) fn connect(&self, switch: &NameSpace, host: usize) -> Result<(), Skip> {
        let port = port(host);
        match self {
            Self::Relayed(relay) => {
                return relay.connect(switch, host).map_err(|reason| too_fair(&reason));
            }
            Self::Netem { delay, loss } => netem(switch, &port, *delay, *loss)?,
            Self::Fair => {}
        }
        switch.ip(&["link", "set", &port, "master", SWITCH]);
        Ok(())
    }
}

fn too_fair(reason: &dyn Display) -> Skip {
    Skip::new(format!("delay and loss need tc's netem, or bridge and vxlan: {reason}"))
}

/// Delays and loses what is sent out of an interface.
fn netem(space: &NameSpace, interface: &str, delay: Duration, loss: f64) -> Result<(), Skip> {
    let (delay, loss) = (format!("{}us", delay.as_micros()), format!("{loss}%"));
    let place = ["qdisc", "add", "dev", interface, "root", "netem", "limit", QUEUE];
    space.attempt("tc", &[place.as_slice(), &["delay", &delay, "loss", &loss]].concat())?;
    Ok(())
}

/// How many packets may be on their way to a host; the kernel's own limit is soon reached.
const QUEUE: &str = "100000";
