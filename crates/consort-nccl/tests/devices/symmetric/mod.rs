//! Symmetric memory of devices, beside that of the host.

/// Makes two tests of what each of so many ranks does: where devices reach each other's memory, and where they do not.
/// `end` is done to the job while it runs.
macro_rules! near_and_apart {
    ($($name:ident($world:literal, $end:expr);)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "for what is done to the job")]
            use super::*;

            #[test]
            fn near() {
                let ranks = crate::stage::with_devices($world);
                $end(ranks.start(|ctx| super::$name(ctx)));
            }

            #[test]
            fn apart() {
                let ranks = crate::symmetric::kept_apart($world);
                $end(ranks.start(|ctx| super::$name(ctx)));
            }
        }
    )*};
}

mod failures;
mod making;
mod moves;
mod threads;

use consort::symm::{DeviceSymmetric, SymmetricMemory};
use consort::{Group, Source, Target};
use consort_testkit::Ranks;

use crate::stage::{device, with_devices};

/// Symmetric memory on every rank's device.
fn on_devices(group: &Group, bytes: usize) -> DeviceSymmetric {
    group.symmetric_on(&device(group), bytes).unwrap()
}

/// Ranks whose devices reach nothing but their own memory, so that NCCL puts.
pub(crate) fn kept_apart(world: u32) -> Ranks {
    with_devices(world).env("NCCL_P2P_DISABLE", "1")
}

/// A byte that tells who has put it where, and when. Places repeat after a prime number of bytes, which nothing else
/// does.
fn coded(from: u32, at: usize, turn: usize) -> u8 {
    (from as usize * 31 + at % PERIOD * 7 + turn * 101 + 1) as u8
}

fn message(from: u32, at: usize, turn: usize, len: usize) -> Vec<u8> {
    let once: Vec<u8> = (at..at + PERIOD).map(|at| coded(from, at, turn)).collect();
    let mut bytes = once.repeat(len / PERIOD + 1);
    bytes.truncate(len);
    bytes
}

/// What a rank has from a place on.
fn read(memory: &dyn SymmetricMemory, rank: u32, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; len];
    memory.get(rank.into(), at, Target::from(&mut bytes[..])).unwrap();
    bytes
}

/// What this rank has.
fn read_own(memory: &dyn SymmetricMemory, at: usize, len: usize) -> Vec<u8> {
    read(memory, memory.group().rank().get(), at, len)
}

fn source(bytes: &[u8]) -> Source<'_> {
    bytes.into()
}

/// This rank's number, how many there are, and its neighbours.
fn places(group: &Group) -> (u32, u32, u32, u32) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    (me, world, (me + 1) % world, (me + world - 1) % world)
}

const PERIOD: usize = 251;
