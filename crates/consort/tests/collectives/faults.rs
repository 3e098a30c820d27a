//! Ranks that die, leave early or give up: the others hear of it, by name.

mod aborts;
mod death;
mod leaving;

use consort::{Error, ErrorKind, Group, ReduceOp, Result};

/// Calls of all kinds, small and large, for ever; each result is checked.
fn stream(group: &Group) -> Error {
    (1..).find_map(|round| mixed(group, round).err()).expect("it ends with an error")
}

/// One call of each kind.
fn mixed(group: &Group, round: usize) -> Result<()> {
    let (me, world) = (group.rank().index(), group.world());
    let count = [1, 9, 1000, 50_000][round % 4];
    let root = (round % world) as u32;
    let value = round as u32;

    let mut sum = vec![value; count];
    group.all_reduce(&mut sum, ReduceOp::Sum)?;
    assert_eq!(sum, vec![value.wrapping_mul(world as u32); count]);

    let mut given = vec![if me == root as usize { value } else { 0 }; count];
    group.broadcast(&mut given, root)?;
    assert_eq!(given, vec![value; count]);

    let mut everyones = vec![0; world * count];
    group.all_gather(&vec![value + me as u32; count], &mut everyones)?;
    for (rank, part) in everyones.chunks(count).enumerate() {
        assert_eq!(part, vec![value + rank as u32; count]);
    }

    let mut exchanged: Vec<u32> = (0..world * count).map(|at| (at / count) as u32).collect();
    group.all_to_all_in_place(&mut exchanged)?;
    assert_eq!(exchanged, vec![me as u32; world * count]);

    let mut part = vec![0; count];
    group.reduce_scatter(&vec![1_u32; world * count], &mut part, ReduceOp::Max)?;
    assert_eq!(part, vec![1; count]);
    group.reduce(&mut part, ReduceOp::Sum, root)?;
    group.barrier()
}

/// The error says that this rank is gone, whoever noticed first.
fn names_the_dead(error: &Error, dead: u32) {
    let Error::PeerLost { rank, .. } = error else { panic!("{error}") };
    assert_eq!((*rank, error.kind()), (dead, ErrorKind::PeerGone), "{error}");
}

/// Every rank has been told the same, to the last word.
pub(crate) fn same_everywhere(world: &Group, words: &str) {
    let mut mine = [0_u8; 1024];
    mine[..words.len()].copy_from_slice(words.as_bytes());
    let mut everyones = vec![0; mine.len() * world.world()];
    world.all_gather(&mine, &mut everyones).unwrap();
    for theirs in everyones.chunks(mine.len()) {
        let theirs = String::from_utf8_lossy(theirs);
        assert_eq!(theirs.trim_end_matches('\0'), words);
    }
}
