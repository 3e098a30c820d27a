//! Symmetric memory between real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod collectives;
mod data;
mod failure;
mod making;
mod pool;
mod signals;
mod workspace;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use consort::{Builder, Group};
use consort_testkit::Context;

/// The group of all ranks of a test.
fn meet(ctx: &Context) -> Group {
    let path = ctx.dir().join("meeting");
    let (rank, world) = (ctx.rank(), ctx.world());
    let address = format!("file://{}?rank={rank}&world={world}", path.display());
    Builder::new().address(&address).unwrap().timeout(LIMIT).init().unwrap()
}

/// An element that tells where it was written, for whom, and by whom.
fn coded(by: usize, to: usize, at: usize) -> u64 {
    ((by as u64 + 1) << 48) | ((to as u64 + 1) << 32) | at as u64
}

/// How many bytes of shared memory this process has open, its own and its peers'.
fn committed() -> u64 {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = open.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|file| file.starts_with("/memfd:consort"))
    });
    ours.map(|entry| fs::metadata(entry.path()).unwrap().blocks() * 512).sum()
}

/// Longer than any wait that succeeds, shorter than the tests' own limit.
const LIMIT: Duration = Duration::from_secs(50);
