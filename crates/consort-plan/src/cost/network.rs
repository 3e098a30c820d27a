//! What is between ranks.

use std::str::FromStr;

/// Inside hosts and between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Between ranks of one host: its memory.
    pub inside: Link,
    /// Between ranks of different hosts.
    pub between: Link,
    /// How many ports a host has to the network; all its ranks share them.
    pub ports: u32,
    /// Seconds to combine a byte with another.
    pub gamma: f64,
    /// Seconds to copy a byte.
    pub copy: f64,
}

/// A way for messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds from when a message begins to leave to when it begins to arrive.
    pub alpha: f64,
    /// Seconds that a message keeps its sender and its receiver, whatever its size.
    pub gap: f64,
    /// Seconds for each byte.
    pub beta: f64,
}

impl Link {
    /// A way of this latency (seconds) and bandwidth (bytes in a second). A message keeps its
    /// sender and its receiver for a fifth of the latency, and for two microseconds at most.
    pub fn new(alpha: f64, bandwidth: f64) -> Self {
        Self { alpha, gap: (alpha / 5.0).min(2e-6), beta: 1.0 / bandwidth }
    }
}

impl Network {
    /// The names of the networks that have one.
    pub const NAMES: [&'static str; 5] = ["25g", "100g", "400g", "wan", "loopback"];

    /// Hosts of today with this way between them.
    pub fn new(between: Link) -> Self {
        let inside = Link::new(0.5e-6, 8e9);
        Self { inside, between, ports: 1, gamma: 1.0 / 10e9, copy: 1.0 / 15e9 }
    }
}

/// `25g`, `100g` and `400g` are Ethernet in one building, over TCP; `wan` is a gigabit with 20 ms
/// from site to site; `loopback` is TCP within one host.
impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(name: &str) -> Result<Self, UnknownNetwork> {
        let gigabit = 1e9 / 8.0;
        Ok(Self::new(match name {
            "25g" => Link::new(15e-6, 25.0 * gigabit),
            "100g" => Link::new(12e-6, 100.0 * gigabit),
            "400g" => Link::new(10e-6, 400.0 * gigabit),
            "wan" => Link::new(20e-3, gigabit),
            "loopback" => Link::new(8e-6, 1.7e9),
            _ => return Err(UnknownNetwork { name: name.to_owned() }),
        }))
    }
}

/// There is no network of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no network {name:?}; choose 25g, 100g, 400g, wan or loopback, or give --alpha and --beta")]
pub struct UnknownNetwork {
    name: String,
}
