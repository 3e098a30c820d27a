//! How the ranks of a test meet, and the numbers they use.

use std::time::Duration;

use consort::{Builder, Group};
use consort_store::Secret;
use consort_testkit::{Context, Job, Ranks, skip};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    meet_within(ctx, Duration::from_secs(50))
}

/// The same, whose calls wait so long.
pub(crate) fn meet_within(ctx: &Context, timeout: Duration) -> Group {
    let place = ctx.address_of(0).unwrap().at(29400);
    let secret: String = ctx.told("secret");
    let address = format!("tcp://{place}?rank={}&world={}", ctx.rank(), ctx.world());
    let builder = Builder::new().address(&address).unwrap().secret(secret.parse().unwrap());
    builder.timeout(timeout).init().unwrap()
}

/// So many ranks, one host after the other or dealt out; `None` where hosts are not to be had.
pub(crate) fn ranks(world: u32, hosts: usize, is_dealt: bool) -> Option<Ranks> {
    let ranks = Ranks::new(world).limit(LIMIT);
    let ranks = if is_dealt { ranks } else { ranks.in_blocks() };
    match ranks.on_hosts(hosts) {
        Ok(ranks) => Some(ranks),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// Lets the ranks know the secret of their job.
pub(crate) fn let_in<T: Serialize + DeserializeOwned>(job: &Job<T>) {
    job.tell("secret", &Secret::generate().unwrap().to_hex());
}

/// Bytes that differ from rank to rank, from call to call and from place to place, and that are
/// ordinary numbers of every dtype.
pub(crate) fn bytes(rank: usize, call: usize, len: usize) -> Vec<u8> {
    let mix = |at: usize| (at * 7 + rank * 13 + call * 5 + at / 250) % 53;
    (0..len).map(|at| 0x30 + mix(at) as u8 % 16).collect()
}

/// Some machines are slow.
const LIMIT: Duration = Duration::from_secs(100);
