//! Copies, of every dtype.

use consort::nccl::{Comm, Stream, group};
use consort::{Dtype, Source, Target};
use consort_testkit::ranks;

use crate::meet::comm;
use crate::numbers::coded;

#[test]
fn one_rank_copies_to_itself() {
    ranks(1, |ctx| move_everything(comm(ctx)));
}

#[test]
fn two_ranks_move_every_dtype() {
    ranks(2, |ctx| move_everything(comm(ctx)));
}

#[test]
fn three_ranks_move_every_dtype() {
    ranks(3, |ctx| move_everything(comm(ctx)));
}

#[test]
fn four_ranks_move_every_dtype() {
    ranks(4, |ctx| move_everything(comm(ctx)));
}

#[test]
fn messages_to_one_rank_arrive_in_order() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let peer = 1 - ctx.rank();
        let out: Vec<Vec<u8>> =
            (0..20).map(|at| coded(ctx.rank() * 20 + at, at as usize * 3)).collect();
        let mut into: Vec<Vec<u8>> = (0..20).map(|at| vec![0; at * 3]).collect();
        group(comm.library(), || {
            for (out, into) in out.iter().zip(&mut into) {
                // SAFETY: they are left alone until the group has ended; the other rank does the same. So below.
                unsafe { comm.send((&out[..]).into(), Dtype::U8, peer, Stream::DEFAULT) }?;
                // SAFETY: as above.
                unsafe { comm.recv((&mut into[..]).into(), Dtype::U8, peer, Stream::DEFAULT) }?;
            }
            Ok(())
        })
        .unwrap();
        let expected: Vec<Vec<u8>> =
            (0..20).map(|at| coded(peer * 20 + at, at as usize * 3)).collect();
        assert_eq!(into, expected);
        comm.destroy().unwrap();
    });
}

fn move_everything(comm: Comm) {
    for dtype in Dtype::ALL {
        for len in [0, 1, 5, 1023] {
            move_all(&comm, dtype, len * dtype.size());
        }
    }
    comm.destroy().unwrap();
}

fn move_all(comm: &Comm, dtype: Dtype, len: usize) {
    let (rank, world) = (comm.rank(), comm.world() as usize);
    // A bool that is neither would be changed on its way.
    let code = |rank: u32, len: usize| -> Vec<u8> {
        let bytes = coded(rank, len);
        if dtype == Dtype::Bool { bytes.into_iter().map(|byte| byte & 1).collect() } else { bytes }
    };
    let own = |rank: u32| code(rank, len);
    let everyones: Vec<u8> = (0..comm.world()).flat_map(own).collect();
    let mine = own(rank);
    let what = format!("{len} bytes of {dtype} at rank {rank} of {world}");

    for root in 0..comm.world() {
        let mut bytes = if rank == root { mine.clone() } else { vec![0xee; len] };
        // SAFETY: the default stream is done when the call returns; all ranks make the same call. So below.
        unsafe { comm.broadcast(None, (&mut bytes[..]).into(), dtype, root, Stream::DEFAULT) }
            .unwrap();
        assert_eq!(bytes, own(root), "broadcast: {what}");
        let mut bytes = vec![0xee; len];
        let send = (rank == root).then(|| Source::from(&mine[..]));
        // SAFETY: as above.
        unsafe { comm.broadcast(send, (&mut bytes[..]).into(), dtype, root, Stream::DEFAULT) }
            .unwrap();
        assert_eq!(bytes, own(root), "broadcast apart: {what}");

        let mut all = vec![0xee; len * world];
        let recv = (rank == root).then(|| Target::from(&mut all[..]));
        // SAFETY: as above.
        unsafe { comm.gather((&mine[..]).into(), recv, dtype, root, Stream::DEFAULT) }.unwrap();
        if rank == root {
            assert_eq!(all, everyones, "gather: {what}");
        }
        let whole = code(root, len * world);
        let send = (rank == root).then(|| Source::from(&whole[..]));
        let mut part = vec![0xee; len];
        // SAFETY: as above.
        unsafe { comm.scatter(send, (&mut part[..]).into(), dtype, root, Stream::DEFAULT) }
            .unwrap();
        let at = rank as usize * len;
        assert_eq!(part, whole[at..at + len], "scatter: {what}");
    }

    let mut all = vec![0xee; len * world];
    // SAFETY: as above.
    unsafe { comm.all_gather((&mine[..]).into(), (&mut all[..]).into(), dtype, Stream::DEFAULT) }
        .unwrap();
    assert_eq!(all, everyones, "all-gather: {what}");
    let mut all = vec![0xee; len * world];
    let at = rank as usize * len;
    all[at..at + len].copy_from_slice(&mine);
    let recv = Target::from(&mut all[..]);
    // SAFETY: as above.
    unsafe { comm.all_gather(recv.slice(at..at + len).into(), recv, dtype, Stream::DEFAULT) }
        .unwrap();
    assert_eq!(all, everyones, "all-gather in place: {what}");

    let out = code(rank, len * world);
    let mut into = vec![0xee; len * world];
    // SAFETY: as above.
    unsafe { comm.all_to_all((&out[..]).into(), (&mut into[..]).into(), dtype, Stream::DEFAULT) }
        .unwrap();
    let expected: Vec<u8> =
        (0..comm.world()).flat_map(|from| code(from, len * world)[at..at + len].to_vec()).collect();
    assert_eq!(into, expected, "all-to-all: {what}");

    let (next, previous) = ((rank + 1) % comm.world(), (rank + comm.world() - 1) % comm.world());
    let mut from = vec![0xee; len];
    group(comm.library(), || {
        // SAFETY: as above, when the group has ended.
        unsafe { comm.send((&mine[..]).into(), dtype, next, Stream::DEFAULT) }?;
        // SAFETY: as above.
        unsafe { comm.recv((&mut from[..]).into(), dtype, previous, Stream::DEFAULT) }
    })
    .unwrap();
    assert_eq!(from, own(previous), "message: {what}");
}
