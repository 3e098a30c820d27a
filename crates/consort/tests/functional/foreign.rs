//! Values of somebody else's, whose numbers lie as they like.

use consort::functional::{
    Array, Collective, Meta, Value, View, all_gather_out, all_reduce_in_place, coalesced, send,
    start,
};
use consort::{Dtype, Element, ReduceOp, Result};
use consort_testkit::{Case, conformance};

use crate::exercise::assert_same;
use crate::meet::{alone, meet};
use crate::numbers::Number;
use crate::oracle::{made, result};

conformance! { [shm tcp mixed in_process] values_that_lie_in_any_order_take_part }

/// A tensor as libraries have them: a view of memory, from some place on and with any distances.
#[derive(Clone, Debug)]
struct Tensor {
    memory: std::sync::Arc<Vec<i32>>,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl Tensor {
    /// With the same numbers for the same rank.
    fn rows(rank: usize, shape: &[usize]) -> Self {
        let count = shape.iter().product::<usize>() as i32;
        let memory = (0..count).map(|at| at * 11 + rank as i32 * 10_007).collect();
        Self::from_memory(memory, Meta::new(Dtype::I32, shape))
    }

    fn transposed(mut self, one: usize, other: usize) -> Self {
        self.shape.swap(one, other);
        self.strides.swap(one, other);
        self
    }

    /// Only so many of a dimension, from one on.
    fn narrowed(mut self, dim: usize, from: usize, len: usize) -> Self {
        self.offset += from * self.strides[dim];
        self.shape[dim] = len;
        self
    }

    /// Every other one.
    fn halved(mut self, dim: usize) -> Self {
        self.shape[dim] = self.shape[dim].div_ceil(2);
        self.strides[dim] *= 2;
        self
    }

    /// The same again and again.
    fn expanded(mut self, len: usize) -> Self {
        self.shape.insert(0, len);
        self.strides.insert(0, 0);
        self
    }

    fn array(&self) -> Array<i32> {
        made(&self.shape, |index| {
            let place: usize = index.iter().zip(&self.strides).map(|(at, by)| at * by).sum();
            self.memory[self.offset + place]
        })
    }
}

impl Value for Tensor {
    type Memory = Vec<i32>;

    fn meta(&self) -> Result<Meta> {
        Ok(Meta::new(Dtype::I32, self.shape.clone()))
    }

    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R> {
        let numbers = i32::source(&self.memory[self.offset..]);
        Ok(look(View::strided(numbers, Dtype::I32, &self.shape, &self.strides)?))
    }

    fn from_memory(memory: Vec<i32>, meta: Meta) -> Self {
        let mut strides = vec![1; meta.shape.len()];
        for dim in (1..strides.len()).rev() {
            strides[dim - 1] = strides[dim] * meta.shape[dim];
        }
        Self { memory: memory.into(), offset: 0, shape: meta.shape, strides }
    }
}

fn layouts(rank: usize) -> Vec<Tensor> {
    vec![
        Tensor::rows(rank, &[6, 4]),
        Tensor::rows(rank, &[4, 6]).transposed(0, 1),
        Tensor::rows(rank, &[9, 8]).narrowed(0, 2, 6).narrowed(1, 3, 4),
        Tensor::rows(rank, &[8, 12]).transposed(0, 1).narrowed(0, 5, 6).narrowed(1, 1, 4),
        Tensor::rows(rank, &[12, 8]).halved(0).halved(1),
        Tensor::rows(rank, &[4]).expanded(6),
        Tensor::rows(rank, &[6, 1]).transposed(0, 1).expanded(2).transposed(0, 2),
        Tensor::rows(rank, &[2, 6, 4]).transposed(0, 2),
        Tensor::rows(rank, &[5, 5]).narrowed(1, 2, 0),
        Tensor::rows(rank, &[7]).narrowed(0, 3, 4).halved(0),
    ]
}

fn values_that_lie_in_any_order_take_part(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        let op = ReduceOp::Sum;
        for at in 0..layouts(0).len() {
            let everyones: Vec<Array<i32>> = (0..2).map(|rank| layouts(rank)[at].array()).collect();
            let x = &layouts(me)[at];
            let mut calls = vec![
                Collective::AllReduce { op },
                Collective::Reduce { op, root: 0.into() },
                Collective::Broadcast { root: 1.into() },
                Collective::Permute { pairs: vec![(0.into(), 1.into()), (1.into(), 0.into())] },
            ];
            calls.extend((0..x.shape.len()).map(|dim| Collective::AllGather { dim }));
            for dim in (0..x.shape.len()).filter(|&dim| x.shape[dim].is_multiple_of(2)) {
                calls.push(Collective::ReduceScatter { op, dim });
            }
            if x.shape[0].is_multiple_of(2) {
                calls.push(Collective::AllToAll);
                let rows = vec![x.shape[0] / 2; 2];
                calls.push(Collective::AllToAllUneven { to: rows.clone(), from: rows });
            }
            let right =
                |call: &Collective| result(me, &vec![call.clone(); 2], &everyones, i32::combine);
            let alone = calls.iter().map(|call| start(call.clone(), x, &group).unwrap());
            for (call, found) in calls.iter().zip(alone.collect::<Vec<_>>()) {
                let what = format!("{call} of layout {at}");
                assert_same(&found.wait().unwrap().array(), &right(call), &what);
            }
            let together: Vec<_> = calls.iter().map(|call| (call.clone(), x)).collect();
            let found = coalesced(&together, &group).unwrap().wait().unwrap();
            for (call, found) in calls.iter().zip(found) {
                assert_same(&found.array(), &right(call), &format!("{call} of layout {at}"));
            }
            let sums = all_reduce_in_place(x.clone(), op, &group).unwrap().wait().unwrap();
            assert_same(&sums.array(), &right(&Collective::AllReduce { op }), "in place");
            let room = Tensor::rows(7, right(&Collective::AllGather { dim: 0 }).shape());
            let all = all_gather_out(x, 0, room, &group).unwrap().wait().unwrap();
            assert_same(&all.array(), &right(&Collective::AllGather { dim: 0 }), "out");
        }
    });
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let group = alone();
    let mut outside = Tensor::rows(0, &[2, 3]);
    outside.strides = vec![4, 1];
    let x = vec![(Collective::AllToAll, &outside), (Collective::AllGather { dim: 1 }, &outside)];
    for (call, x) in x.clone() {
        let error = start(call, x, &group).unwrap_err().to_string();
        assert!(error.contains("are not within 24 bytes"), "{error}");
    }
    assert!(coalesced(&x, &group).is_err());
    assert!(send(&outside, 0, 0, &group).is_err());
    assert!(all_reduce_in_place(outside, ReduceOp::Sum, &group).is_err());
    assert_eq!(group.calls(), 0);
}
