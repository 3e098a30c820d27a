//! Stores on a network without machines: the server's [room](super::server::room) and a client made of
//! the handshake and the protocol, fed with bytes in pieces, on connections that break at any byte.

pub(crate) mod client;
mod guests;
pub(crate) mod server;
mod world;

use std::time::Instant;

use consort_testkit::net::{Net, play};

use crate::deadline::played;
use crate::secret::Secret;
use world::World;

/// Has this thread see a host's clock. `start` is when all clocks of the network show nothing.
pub(crate) fn see_clock(net: &Net, host: usize, start: Instant) -> Instant {
    let now = start + net.clock(host);
    played::set(now);
    now
}

/// A secret of this kind, different from those of others.
pub(crate) fn secret(kind: u8) -> Secret {
    format!("{kind:02x}").repeat(32).parse().unwrap()
}

#[test]
fn whoever_comes_and_whatever_breaks_a_store_serves_its_own_and_nobody_else() {
    let found = play("consort-store", "whoever_comes_and_whatever", SEEDS, |seed, shows| {
        World::new(seed, shows).run()
    });
    let Some([pieces, breaks, losses, stops, again, refused, choked]) = found else { return };
    // Worlds in which nothing happens would prove nothing.
    let least = [pieces / 20, breaks, losses * 5, stops * 2, again, refused, choked * 20];
    assert!(least.iter().all(|&count| count > SEEDS / 2), "{found:?} of {SEEDS}");
}

/// So many worlds are played.
const SEEDS: u64 = 1500;
