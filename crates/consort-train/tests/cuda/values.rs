//! Collectives on tensors of devices give what those on tensors of the host give.

use candle_core::{DType, Device, Tensor, Var};
use consort::functional::Collective;
use consort::{Group, ReduceOp};
use consort_testkit::ranks;
use consort_train::Result;
use consort_train::candle::functional::{
    Message, all_gather, all_gather_out, all_reduce, all_reduce_coalesced_in_place,
    all_reduce_in_place, all_to_all, all_to_all_uneven, backward, batch, broadcast, coalesced,
    permute, recv, reduce, reduce_scatter, replicate, send,
};

use super::stage::{assert_near, coded, meet, plain};

type Forward = fn(&Tensor, &Group) -> Result<Tensor>;

/// Calls on a tensor whose first dimension all ranks can share, and whose second, too.
const CALLS: [(&str, Forward); 12] = [
    ("all_reduce of sums", |x, group| all_reduce(x, ReduceOp::Sum, group)?.wait()),
    ("all_reduce of averages", |x, group| all_reduce(x, ReduceOp::Avg, group)?.wait()),
    ("broadcast", |x, group| broadcast(x, 1, group)?.wait()),
    ("reduce", |x, group| reduce(x, ReduceOp::Sum, 1, group)?.wait()),
    ("all_gather along 0", |x, group| all_gather(x, 0, group)?.wait()),
    ("all_gather along 1", |x, group| all_gather(x, 1, group)?.wait()),
    ("all_gather along 2", |x, group| all_gather(x, 2, group)?.wait()),
    ("reduce_scatter along 0", |x, group| reduce_scatter(x, ReduceOp::Sum, 0, group)?.wait()),
    ("reduce_scatter of averages along 1", |x, group| {
        reduce_scatter(x, ReduceOp::Avg, 1, group)?.wait()
    }),
    ("all_to_all", |x, group| all_to_all(x, group)?.wait()),
    ("permute", |x, group| permute(x, &circle(group), group)?.wait()),
    ("replicate", |x, group| replicate(x, group)),
];

/// Each rank sends to the next.
fn circle(group: &Group) -> Vec<(u32, u32)> {
    let world = group.world() as u32;
    (0..world).map(|rank| (rank, (rank + 1) % world)).collect()
}

mod every_call_gives_forward_and_backward_what_it_gives_on_the_host {
    use consort_testkit::ranks;

    #[test]
    fn between_two() {
        ranks(2, |ctx| super::compare_calls(&super::meet(ctx)));
    }

    #[test]
    fn between_three() {
        ranks(3, |ctx| super::compare_calls(&super::meet(ctx)));
    }
}

fn compare_calls((group, device): &(Group, Device)) {
    let shape = [2 * group.world(), group.world(), 3];
    for (name, call) in CALLS {
        let of = |on: &Device| {
            let x = Var::from_tensor(&coded(group.rank().index(), &shape, on)).unwrap();
            let y = call(&x, group).unwrap();
            assert!(y.device().same_device(on), "{name}");
            let weights = coded(group.rank().index() + 5, y.dims(), on);
            let loss = (&y * weights).unwrap().sum_all().unwrap();
            let gradient = backward(&loss).unwrap().remove(&x).unwrap();
            assert!(gradient.device().same_device(on), "{name}");
            (y.dims().to_vec(), plain(&y), plain(&gradient))
        };
        println!("{name}"); // shown if it fails
        let (there, here) = (of(device), of(&Device::Cpu));
        assert_eq!(there.0, here.0, "{name}");
        assert_near(&there.1, &here.1);
        assert_near(&there.2, &here.2);
    }
}

#[test]
fn parts_of_different_sizes_change_places() {
    ranks(3, |ctx| {
        let (group, device) = meet(ctx);
        let me = group.rank().index();
        // Rank r has r + 1 rows for everyone.
        let (to, from) = ([me + 1; 3], [1, 2, 3]);
        let call = |on: &Device| {
            let x = coded(me, &[3 * (me + 1), 5], on);
            all_to_all_uneven(&x, &to, &from, &group).unwrap().wait().unwrap()
        };
        let there = call(&device);
        assert_eq!((there.dims(), plain(&there)), (&[6, 5][..], plain(&call(&Device::Cpu))));
    });
}

#[test]
fn every_dtype_travels_and_what_nccl_cannot_combine_is_refused() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let all = [
            (DType::F32, true),
            (DType::F64, true),
            (DType::F16, true),
            (DType::BF16, true),
            (DType::U8, true),
            (DType::U32, true),
            (DType::I16, false),
            (DType::I32, true),
            (DType::I64, true),
        ];
        for (dtype, combines) in all {
            let host = coded(group.rank().index(), &[7], &Device::Cpu);
            let host = (host.abs().unwrap() / 4.0).unwrap().to_dtype(dtype).unwrap();
            let x = host.to_device(&device).unwrap();
            let gathered = all_gather(&x, 0, &group).unwrap().wait().unwrap();
            let expected = all_gather(&host, 0, &group).unwrap().wait().unwrap();
            assert_eq!((gathered.dtype(), plain(&gathered)), (dtype, plain(&expected)));
            let sum = all_reduce(&x, ReduceOp::Sum, &group).and_then(|sum| sum.wait());
            match sum {
                Ok(sum) if combines => {
                    let expected = all_reduce(&host, ReduceOp::Sum, &group).unwrap().wait();
                    assert_eq!(plain(&sum), plain(&expected.unwrap()), "{dtype:?}");
                }
                Err(error) if !combines => {
                    assert!(error.to_string().contains("NCCL"), "{error}");
                }
                other => panic!("{dtype:?}: {other:?}"),
            }
        }
    });
}

#[test]
fn views_and_empty_and_single_numbers_travel() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let views = |on: &Device| {
            let x = coded(group.rank().index(), &[6, 4], on);
            let some = [x.narrow(0, 1, 4), x.t(), x.narrow(1, 1, 2), x.get(3).unwrap().get(2)];
            let sum = |x: Tensor| all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
            some.map(|view| plain(&sum(view.unwrap())))
        };
        assert_eq!(views(&device), views(&Device::Cpu));
        let one = coded(group.rank().index(), &[], &device);
        assert_eq!(all_gather(&one, 0, &group).unwrap().wait().unwrap().dims(), [2]);
    });
}

#[test]
fn variables_are_replaced_where_they_are() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let me = group.rank().index();
        let changed = |on: &Device| {
            let var = |seed: usize| Var::from_tensor(&coded(me + seed, &[5], on)).unwrap();
            let (one, other, all) = (var(0), var(3), Var::zeros(10, DType::F32, on).unwrap());
            all_reduce_in_place(&one, ReduceOp::Sum, &group).unwrap().wait().unwrap();
            let both = all_reduce_coalesced_in_place(&[&one, &other], ReduceOp::Max, &group);
            both.unwrap().wait().unwrap();
            all_gather_out(&one, 0, &all, &group).unwrap().wait().unwrap();
            [plain(&one), plain(&other), plain(&all)]
        };
        assert_eq!(changed(&device), changed(&Device::Cpu));
    });
}

#[test]
fn several_calls_are_one_if_they_are_in_one_place() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let me = group.rank().index();
        let (here, there) = (coded(me, &[4], &Device::Cpu), coded(me, &[4], &device));
        let sum = || Collective::AllReduce { op: ReduceOp::Sum };
        let scatter = || Collective::ReduceScatter { op: ReduceOp::Sum, dim: 0 };
        let both = |x: &Tensor| {
            let both = coalesced(&[(sum(), x), (scatter(), x)], &group).unwrap().wait().unwrap();
            both.iter().map(plain).collect::<Vec<_>>()
        };
        assert_eq!(both(&there), both(&here));
        let mixed = coalesced(&[(sum(), &here), (sum(), &there)], &group).unwrap_err();
        assert!(mixed.to_string().contains("all on tensors of the host"), "{mixed}");
        // Nothing was begun.
        assert_eq!(both(&there), both(&here));
    });
}

#[test]
fn messages_go_by_way_of_the_host() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let me = group.rank().get();
        let x = coded(me as usize, &[3, 2], &device);
        let sent = send(&x, 1 - me, 7, &group).unwrap();
        let received = recv((3, 2), DType::F32, 1 - me, 7, &group).unwrap().wait().unwrap();
        sent.wait().unwrap();
        assert!(received.device().is_cpu());
        let expected = plain(&coded(1 - me as usize, &[3, 2], &Device::Cpu));
        assert_eq!(plain(&received), expected);
        let (peer, tag) = ((1 - me).into(), 8.into());
        let (shape, dtype) = ((3, 2).into(), DType::F32);
        let both =
            [Message::Out { x: &x, to: peer, tag }, Message::In { shape, dtype, from: peer, tag }];
        let received = batch(&both, &group).unwrap().wait().unwrap();
        assert_eq!(plain(&received[0]), expected);
    });
}

#[test]
fn ranks_that_call_something_else_hear_of_it() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let x = coded(0, &[4, 2], &device);
        all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
        let x = if group.rank() == 0 { x } else { x.reshape((2, 4)).unwrap() };
        let error = all_reduce(&x, ReduceOp::Sum, &group).and_then(|sum| sum.wait()).unwrap_err();
        assert!(error.to_string().contains("all_reduce"), "{error}");
    });
}

#[test]
fn fake_groups_have_no_devices() {
    ranks(1, |ctx| {
        let (_, device) = meet(ctx);
        let group = Group::fake(0, 4).unwrap();
        let error = all_reduce(&coded(0, &[4], &device), ReduceOp::Sum, &group).unwrap_err();
        assert!(error.to_string().contains("only pretends"), "{error}");
    });
}
