//! Messages between real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod background;
mod exchange;
mod failures;
#[path = "../invitation/mod.rs"]
mod invitation;
mod order;
mod threads;

use std::time::Duration;

use consort::{Element, Error, Group};
use consort_testkit::{Context, Kind};

use self::invitation::invited;

/// The group of all ranks of a job.
fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(Duration::from_secs(100)).init().unwrap()
}

/// Numbers that tell where they are and in which message.
fn coded(message: usize, count: usize) -> Vec<u32> {
    (0..count).map(|at| ((message << 24) ^ (at + 1)) as u32).collect()
}

/// Room for a message.
fn room<T: Element>(count: usize) -> Vec<T> {
    vec![T::default(); count]
}

/// How many bytes can be on their way to a rank that does not look for any.
fn capacity(ctx: &Context) -> usize {
    match ctx.kind() {
        Kind::Shm | Kind::InProcess => RING,
        // What MPI takes before it is looked at, and no more than that.
        Kind::Mpi => 512 << 10,
        // A window, and no more than that.
        Kind::Tcp | Kind::Mixed => 16 << 20,
    }
}

/// Sends rank 1 small messages with tag 7 until there is no more room for one. Each is so often its
/// own number. Says how many there were.
fn fill(ctx: &Context, group: &Group) -> u32 {
    let hasty = group.within(SHORT);
    let refused = |number: &u32| match hasty.send(&vec![*number; repeats(ctx)], 1, 7) {
        Ok(()) => false,
        Err(Error::Late { .. }) => true,
        Err(error) => panic!("{error}"),
    };
    (0..).find(refused).unwrap()
}

/// Receives from rank 0 what it filled the room with.
fn empty(ctx: &Context, group: &Group, count: u32) {
    for number in 0..count {
        let mut received = vec![0; repeats(ctx)];
        group.recv(&mut received, 0, 7).unwrap();
        assert_eq!(received, vec![number; repeats(ctx)]);
    }
}

/// How long messages are of which about a thousand are on their way.
fn repeats(ctx: &Context) -> usize {
    match ctx.kind() {
        Kind::Shm | Kind::InProcess | Kind::Mpi => 1,
        Kind::Tcp | Kind::Mixed => 4096,
    }
}

/// How many bytes a ring has.
const RING: usize = 64 << 10;
/// For waits that have to be in vain.
const SHORT: Duration = Duration::from_millis(400);
