//! How the ranks of a test meet, and whether a group is the one it should be.

use std::time::Duration;

use consort::{Group, Mesh, ReduceOp};
use consort_testkit::Context;

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// A group has these ranks of another, in this order: they are there, and hear each other.
pub(crate) fn has(group: &Group, parent: &Group, ranks: &[u32]) {
    assert_eq!(group.world(), ranks.len());
    let mine = code(parent.rank().get());
    let mut all = vec![0; ranks.len()];
    group.all_gather(&[mine], &mut all).unwrap();
    let expected: Vec<u64> = ranks.iter().map(|&rank| code(rank)).collect();
    assert_eq!(all, expected, "group {} of {ranks:?}", group.name());
    let mut sum = [mine];
    group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
    assert_eq!(sum[0], expected.iter().sum::<u64>());
}

/// Along every dimension a mesh has the groups that its rows say.
pub(crate) fn works(mesh: &Mesh) {
    for dim in 0..mesh.ndim() {
        let me = mesh.parent().rank().get();
        let rows = mesh.rows(dim).unwrap();
        let row = rows.iter().find(|row| row.contains(&me)).unwrap();
        has(&mesh.group(dim).unwrap(), mesh.parent(), row);
        assert_eq!(row[mesh.local_rank(dim).unwrap()], me);
    }
}

/// Every rank sends something to every other, so that those who need connections have them.
pub(crate) fn connect(group: &Group) {
    let world = group.world();
    let mut from_all = vec![0_u8; world];
    group.all_to_all(&vec![1_u8; world], &mut from_all).unwrap();
    let me = group.rank().get();
    for other in (0..world as u32).filter(|&other| other != me) {
        group.send_recv(&[me], other, &mut [0_u32], other, 0).unwrap();
    }
    group.all_reduce(&mut [1.0_f32; 1000], ReduceOp::Sum).unwrap();
    group.barrier().unwrap();
}

/// A number of which every rank has its own, and every set of ranks its own sum.
fn code(rank: u32) -> u64 {
    1000 + (1 << (4 * rank))
}

/// Longer than anything takes, even if others use the cores.
pub(crate) const LONG: Duration = Duration::from_secs(50);
