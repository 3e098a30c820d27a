//! Groups whose other ranks are not there: what comes of calls, and what they would send.

use consort::functional::{
    Array, Collective, Message, Meta, Value, all_reduce, batch, broadcast, coalesced, permute,
    recv, send, start,
};
use consort::{Dtype, Group, Rank, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::meet::{array, coded, meet};

conformance! { [shm tcp mixed in_process]
    a_fake_group_refuses_what_a_real_one_refuses_with_the_same_words
}

const SUM: ReduceOp = ReduceOp::Sum;

fn zeroes(shape: &[usize]) -> Array<f32> {
    array(shape, vec![0.0; shape.iter().product()])
}

#[test]
fn results_of_a_large_fake_group_have_their_shapes() {
    for rank in [0, 513, 1023] {
        let group = Group::fake(rank, 1024).unwrap();
        let me = group.rank();
        let circle = (0..1024).map(|rank| (Rank::from(rank), Rank::from((rank + 1) % 1024)));
        let mut to = vec![0; 1024];
        to[7] = 5;
        let from: Vec<usize> = (0..1024).map(|rank| rank % 3).collect();
        to[me.index()] = from[me.index()];
        let rows = to.iter().sum();
        let table = [
            (Collective::Broadcast { root: 1000.into() }, &[2, 3][..], vec![2, 3]),
            (Collective::AllReduce { op: SUM }, &[], vec![]),
            (Collective::Reduce { op: SUM, root: 5.into() }, &[2, 0], vec![2, 0]),
            (Collective::AllGather { dim: 0 }, &[], vec![1024]),
            (Collective::AllGather { dim: 0 }, &[2, 3], vec![2048, 3]),
            (Collective::AllGather { dim: 2 }, &[2, 1, 3], vec![2, 1, 3072]),
            (Collective::ReduceScatter { op: SUM, dim: 1 }, &[3, 2048], vec![3, 2]),
            (Collective::AllToAll, &[1024, 2], vec![1024, 2]),
            (Collective::AllToAllUneven { to, from }, &[rows, 2], vec![1023, 2]),
            (Collective::Permute { pairs: circle.collect() }, &[4], vec![4]),
        ];
        for (call, shape, right) in table {
            let x = zeroes(shape);
            let meta = call.meta(&x.meta().unwrap(), me, 1024).unwrap();
            assert_eq!(meta, Meta::new(Dtype::F32, right), "{call}");
            let pending = start(call, &x, &group).unwrap();
            assert!(pending.is_done());
            assert_eq!(pending.wait().unwrap().meta().unwrap(), meta);
        }
    }
}

#[test]
fn a_fake_group_goes_on_with_what_this_rank_has() {
    let group = Group::fake(2, 4).unwrap();
    let x = coded(0, &[4, 2]);
    let found = |call: Collective| start(call, &x, &group).unwrap().wait().unwrap();
    assert_eq!(found(Collective::AllReduce { op: SUM }), x);
    assert_eq!(found(Collective::Broadcast { root: 2.into() }), x);
    assert_eq!(found(Collective::Reduce { op: SUM, root: 2.into() }), x);
    assert_eq!(found(Collective::AllToAll), x);
    let pairs = |pairs: &[(u32, u32)]| Collective::Permute {
        pairs: pairs.iter().map(|&(from, to)| (from.into(), to.into())).collect(),
    };
    assert_eq!(found(pairs(&[(1, 2), (2, 3)])), x);
    assert_eq!(found(pairs(&[(2, 2)])), x);
    // Nobody would send it anything.
    assert_eq!(found(pairs(&[(2, 3)])), array(&[4, 2], vec![0; 8]));
    let part = found(Collective::ReduceScatter { op: SUM, dim: 0 });
    assert_eq!(part, array(&[1, 2], x.numbers()[4..6].to_vec()));
    let all = found(Collective::AllGather { dim: 1 });
    let four_times = x.numbers().chunks(2).flat_map(|row| row.repeat(4)).collect();
    assert_eq!(all, array(&[4, 8], four_times));
}

#[test]
fn what_would_be_sent_is_counted_for_each_operation() {
    let group = Group::fake(3, 1024).unwrap();
    let (others, world) = (1023, 1024);
    let x = zeroes(&[2048, 3]);
    let bytes = 2048 * 3 * 4;
    for _ in 0..3 {
        drop(all_reduce(&x, SUM, &group).unwrap());
    }
    for (call, x) in [
        (Collective::AllGather { dim: 1 }, &x),
        (Collective::ReduceScatter { op: SUM, dim: 0 }, &x),
        (Collective::AllToAll, &x),
        (Collective::Broadcast { root: 0.into() }, &x),
        (Collective::Reduce { op: SUM, root: 0.into() }, &x),
        (Collective::Permute { pairs: vec![(3.into(), 4.into())] }, &x),
        // These send nothing.
        (Collective::Permute { pairs: vec![(4.into(), 3.into())] }, &x),
        (Collective::AllGather { dim: 0 }, &zeroes(&[0, 7])),
    ] {
        drop(start(call, x, &group).unwrap());
    }
    drop(send(&vec![1_u8; 5], 9, 0, &group).unwrap());
    drop(recv::<Vec<u8>>(Meta::new(Dtype::U8, [5]), 9, 0, &group).unwrap());
    let traffic = group.traffic().unwrap();
    let rows: Vec<_> =
        traffic.rows.iter().map(|row| (row.operation, row.calls, row.bytes, row.sent)).collect();
    let right = [
        // Each byte is sent twice: to be combined, and as a result.
        ("all_reduce", 3, 3 * bytes, 3 * 2 * (bytes * others / world)),
        ("all_gather", 2, bytes, bytes * others),
        ("reduce_scatter", 1, bytes, bytes * others / world),
        ("all_to_all", 1, bytes, bytes * others / world),
        ("broadcast", 1, bytes, bytes * others / world),
        ("reduce", 1, bytes, bytes * others / world),
        ("send", 2, bytes + 5, bytes + 5),
    ];
    assert_eq!(rows, right);
    assert!(traffic.rows.iter().all(|row| row.group == "world" && row.world == 1024));
    assert_eq!(traffic.sent(), right.iter().map(|row| row.3).sum::<u64>());
    let table = traffic.to_string();
    assert_eq!(table.lines().count(), 2 + right.len(), "{table}");
    for (operation, calls, bytes, sent) in right {
        let words = [operation.to_owned(), calls.to_string(), bytes.to_string(), sent.to_string()];
        let is_it =
            |line: &&str| words.iter().all(|word| line.split_whitespace().any(|it| it == word));
        assert_eq!(table.lines().filter(is_it).count(), 1, "{table}");
    }
}

#[test]
fn parts_of_a_fake_group_are_counted_apart() {
    let group = Group::fake(5, 8).unwrap();
    let x = vec![0.0_f32; 30];
    drop(all_reduce(&x, SUM, &group).unwrap());
    drop(all_reduce(&x, SUM, (&group, [[0, 1, 2, 3], [4, 5, 6, 7]])).unwrap());
    drop(all_reduce(&x, SUM, (&group, [5, 1, 3])).unwrap());
    drop(all_reduce(&x, SUM, (&group, [5])).unwrap());
    drop(all_reduce(&x, SUM, (&group, [5, 1, 3])).unwrap());
    let calls: Vec<_> = [&x, &x].map(|x| (Collective::AllGather { dim: 0 }, x)).into();
    let part = group.subgroup(&[5, 1, 3]).unwrap();
    drop(coalesced(&calls, &part).unwrap());
    let message = Message::Out { x: &x, to: 0.into(), tag: 0.into() };
    drop(batch(&[message.clone(), message], &part).unwrap());
    for group in [&group, &part] {
        let rows = group.traffic().unwrap().rows;
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (&row.group[..], row.world, row.operation, row.calls, row.bytes, row.sent))
            .collect();
        let right = [
            ("world", 8, "all_reduce", 1, 120, 2 * 105),
            ("world/[4-7]", 4, "all_reduce", 1, 120, 2 * 90),
            ("world/[5,1,3]", 3, "all_reduce", 2, 240, 2 * 2 * 80),
            ("world/[5]", 1, "all_reduce", 1, 120, 0),
            ("world/[5,1,3]", 3, "all_gather", 2, 240, 2 * 240),
            ("world/[5,1,3]", 3, "send", 2, 240, 240),
        ];
        assert_eq!(rows, right);
    }
    assert_eq!(part.calls(), 4);
}

#[test]
fn a_call_that_is_refused_is_not_counted() {
    let group = Group::fake(0, 4).unwrap();
    assert!(broadcast(&vec![1_u8], 4, &group).is_err());
    assert!(all_reduce(&vec![true], ReduceOp::Avg, &group).is_err());
    assert!(permute(&vec![1_u8], &[(0, 1), (0, 2)], &group).is_err());
    let (x, call) = (vec![1_u8; 3], Collective::AllGather { dim: 0 });
    assert!(coalesced(&[(call, &x), (Collective::AllToAll, &x)], &group).is_err());
    assert!(group.traffic().unwrap().rows.is_empty());
    assert_eq!((group.calls(), group.traffic().unwrap().sent()), (0, 0));
}

fn a_fake_group_refuses_what_a_real_one_refuses_with_the_same_words(case: Case) {
    case.run(3, |ctx| {
        let real = meet(ctx);
        let fake = Group::fake(ctx.rank(), 3).unwrap();
        let me = ctx.rank() as usize;
        let pairs = |pairs: &[(u32, u32)]| Collective::Permute {
            pairs: pairs.iter().map(|&(from, to)| (from.into(), to.into())).collect(),
        };
        let uneven = |to: &[usize], from: &[usize]| Collective::AllToAllUneven {
            to: to.to_vec(),
            from: from.to_vec(),
        };
        let mut one_more = [1, 1, 1];
        one_more[me] += 1;
        let mut told = 0;
        for shape in [&[][..], &[4], &[4, 3], &[3, 0], &[5, 5, 5]] {
            for call in [
                Collective::Broadcast { root: 3.into() },
                Collective::Reduce { op: SUM, root: 9.into() },
                Collective::AllReduce { op: ReduceOp::BitAnd },
                Collective::Reduce { op: ReduceOp::BitOr, root: 0.into() },
                Collective::ReduceScatter { op: ReduceOp::BitXor, dim: 0 },
                Collective::AllGather { dim: 3 },
                Collective::AllGather { dim: 1 },
                Collective::ReduceScatter { op: SUM, dim: 0 },
                Collective::ReduceScatter { op: SUM, dim: 4 },
                Collective::AllToAll,
                uneven(&[4], &[1, 1, 2]),
                uneven(&[1, 1, 2], &[2, 2]),
                uneven(&[1, 1, 1], &[1, 1, 1]),
                uneven(&[1, 1, 2], &one_more),
                pairs(&[(0, 1), (0, 2)]),
                pairs(&[(1, 0), (2, 0)]),
                pairs(&[(0, 3)]),
            ] {
                let x = zeroes(shape);
                let Err(meta) = call.meta(&x.meta().unwrap(), real.rank(), 3) else { continue };
                let both = [&real, &fake].map(|group| start(call.clone(), &x, group).unwrap_err());
                let both = both.map(|error| (error.kind(), error.to_string()));
                assert_eq!(both[0], both[1], "{call} of {shape:?}");
                assert_eq!(both[0], (meta.kind(), meta.to_string()), "{call} of {shape:?}");
                told += 1;
            }
        }
        assert!(told > 60, "only {told} calls were refused");
        for list in [&[0, 1, 2, 3][..], &[0, 0, 1, 2], &[]] {
            let errors = [&real, &fake].map(|it| it.subgroup(list).unwrap_err().to_string());
            assert_eq!(errors[0], errors[1]);
        }
        assert_eq!((real.calls(), fake.calls()), (0, 0));
        // Only what pretends is counted.
        assert_eq!((real.traffic(), fake.traffic().unwrap().rows.len()), (None, 0));
        real.barrier().unwrap();
    });
}
