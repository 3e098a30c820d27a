//! Symmetric memory between real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod bereaved;
mod collectives;
mod data;
mod failure;
mod kept;
mod making;
mod pool;
mod signals;
mod workspace;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
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

/// The shared memory that this process has open, its own and its peers'.
fn arenas() -> Vec<PathBuf> {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    // Not the record, which has a name of its own.
    let is_arena = |file: PathBuf| file.to_string_lossy().starts_with("/memfd:consort (");
    let arenas = open.filter(|path| fs::read_link(path).is_ok_and(is_arena));
    // One of them may be open twice.
    let inode = |path: PathBuf| (fs::metadata(&path).unwrap().ino(), path);
    let arenas: BTreeMap<u64, PathBuf> = arenas.map(inode).collect();
    assert!(!arenas.is_empty(), "whoever has met has memory");
    arenas.into_values().collect()
}

/// How many bytes of it there are, when all ranks ask, and have given back what they have dropped.
fn committed(group: &Group) -> u64 {
    group.barrier().unwrap();
    // Whoever left memory before the others notices when it asks for more.
    let latest = group.symmetric::<u8>(1).unwrap();
    group.barrier().unwrap();
    let bytes = arenas().iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum();
    latest.barrier(0).unwrap();
    bytes
}

/// Longer than any wait that succeeds, shorter than the tests' own limit.
const LIMIT: Duration = Duration::from_secs(50);
