//! Shapes at the edge of what can be counted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consort::functional::{Array, Collective, Meta, start};
use consort::{Dtype, Error, Group, ReduceOp};

use crate::meet::array;

#[test]
fn nothing_at_all_can_have_any_shape() {
    let group = Group::fake(1, 2).unwrap();
    let op = ReduceOp::Sum;
    let mut panicked = Vec::new();
    for shape in [&[0, HUGE, 4][..], &[HUGE, 0, HUGE], &[0, HUGE, HUGE, 2]] {
        let x = array(shape, Vec::<f32>::new());
        let mut calls = vec![
            Collective::AllReduce { op },
            Collective::Broadcast { root: 0.into() },
            Collective::AllToAll,
            Collective::AllToAllUneven { to: vec![0, shape[0]], from: vec![0, shape[0]] },
            Collective::Permute { pairs: vec![(0.into(), 1.into())] },
        ];
        calls.extend((0..shape.len()).map(|dim| Collective::AllGather { dim }));
        calls.extend((0..shape.len()).map(|dim| Collective::ReduceScatter { op, dim }));
        for call in calls {
            let what = format!("{call} of {shape:?}");
            let found = catch_unwind(AssertUnwindSafe(|| start(call, &x, &group)?.wait()));
            match found {
                Ok(Ok(found)) => assert_eq!(found.numbers(), [0.0_f32; 0], "{what}"),
                Ok(Err(error)) => assert!(matches!(error, Error::Argument(_)), "{what}: {error}"),
                Err(_) => panicked.push(what),
            }
        }
    }
    assert!(panicked.is_empty(), "{panicked:#?}");
}

#[test]
fn what_has_no_room_anywhere_is_refused() {
    let group = Group::fake(0, 1024).unwrap();
    let x = Array::from(vec![0_u64; 1 << 10]);
    let call = Collective::AllToAllUneven {
        to: std::iter::once(1 << 10).chain(std::iter::repeat_n(0, group.world() - 1)).collect(),
        from: std::iter::once(1 << 10)
            .chain(std::iter::repeat_n(usize::MAX / 2, group.world() - 1))
            .collect(),
    };
    let error = start(call, &x, &group).unwrap_err().to_string();
    assert!(error.starts_with("all_to_all: no memory is as large as u64"), "{error}");
}

#[test]
fn what_comes_of_a_call_of_nobody_is_refused() {
    let x = Meta::new(Dtype::F32, [0, 2]);
    let (to, from) = (vec![0, 0], vec![0, 0]);
    let op = ReduceOp::Sum;
    for (call, rank, world) in [
        (Collective::AllToAllUneven { to, from }, 2, 2),
        (Collective::AllToAllUneven { to: vec![], from: vec![] }, 0, 0),
        (Collective::AllToAll, 0, 0),
        (Collective::ReduceScatter { op, dim: 1 }, 0, 0),
        (Collective::ReduceScatter { op, dim: 0 }, 0, 0),
    ] {
        let found = catch_unwind(|| call.meta(&x, rank.into(), world));
        let found = found.unwrap_or_else(|_| panic!("{call}, rank {rank} of {world}: a panic"));
        assert!(
            matches!(found, Err(Error::Argument(_))),
            "{call}, rank {rank} of {world}: {found:?}"
        );
    }
}

const HUGE: usize = 1 << 62;
