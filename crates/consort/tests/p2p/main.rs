//! Messages between real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod background;
mod exchange;
mod failures;
mod order;
mod threads;

use std::time::Duration;

use consort::{Builder, Element, Group};
use consort_testkit::Context;

/// The group of all ranks of a job.
fn meet(ctx: &Context) -> Group {
    let path = ctx.dir().join("meeting");
    let address = format!("file://{}?rank={}&world={}", path.display(), ctx.rank(), ctx.world());
    let builder = Builder::new().address(&address).unwrap();
    builder.timeout(Duration::from_secs(100)).init().unwrap()
}

/// Numbers that tell where they are and in which message.
fn coded(message: usize, count: usize) -> Vec<u32> {
    (0..count).map(|at| ((message << 24) ^ (at + 1)) as u32).collect()
}

/// Room for a message.
fn room<T: Element>(count: usize) -> Vec<T> {
    vec![T::default(); count]
}

/// How many bytes a ring has.
const RING: usize = 64 << 10;
/// For waits that have to be in vain.
const SHORT: Duration = Duration::from_millis(200);
