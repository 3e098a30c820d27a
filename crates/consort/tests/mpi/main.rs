//! What is special about groups whose data MPI carries. All that they have in common with others is tested beside
//! those, as one more kind of group.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod agreement;
#[path = "../adversity/child.rs"]
mod child;
mod endings;
mod failures;
mod groups;
mod guests;
mod losses;
mod meeting;
mod moments;
mod pieces;

use consort::{Builder, Engine, Group, ReduceOp, Transport};
use consort_testkit::{Context, Ranks, Skip};

/// So many ranks that MPI's launcher starts.
fn ranks(world: u32) -> Result<Ranks, Skip> {
    Ranks::new(world).by_mpi()
}

/// A builder for a group of all ranks that MPI serves, who know of each other by memory or over the wire.
fn invited(ctx: &Context, transport: Transport) -> Builder {
    let path = ctx.dir().join("meeting");
    let address = format!("file://{}?rank={}&world={}", path.display(), ctx.rank(), ctx.world());
    Builder::new().address(&address).unwrap().engine(Engine::Mpi).transport(transport)
}

/// Calls of several kinds give what they should.
fn works(group: &Group) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    for count in [1, 3, 1000, 100_001] {
        let mut sums: Vec<f32> = (0..count).map(|at| (at % 97) as f32 + me as f32).collect();
        group.all_reduce(&mut sums, ReduceOp::Sum).unwrap();
        let ranks = (world * (world - 1) / 2) as f32;
        assert!((0..count).all(|at| sums[at] == world as f32 * (at % 97) as f32 + ranks));
        let mut whole: Vec<u32> = vec![me + 1; count];
        group.all_reduce(&mut whole, ReduceOp::Max).unwrap();
        assert_eq!(whole, vec![world; count]);
        let mut given: Vec<u8> = vec![if me == world - 1 { 7 } else { 0 }; count];
        group.broadcast(&mut given, world - 1).unwrap();
        assert_eq!(given, vec![7; count]);
        let mut all = vec![0; world as usize * count];
        group.all_gather(&vec![me; count], &mut all).unwrap();
        assert!(all.chunks(count).zip(0..).all(|(part, rank)| part == vec![rank; count]));
    }
    group.barrier().unwrap();
}
