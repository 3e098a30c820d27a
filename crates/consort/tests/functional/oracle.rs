//! What comes of every call, number by number.

use consort::functional::{Array, Collective};
use consort::{Element, ReduceOp};

/// What every rank gets, if these are their calls and their values.
pub(crate) fn results<T: Element>(
    calls: &[Collective],
    values: &[Array<T>],
    combine: impl Fn(ReduceOp, &[T]) -> T,
) -> Vec<Array<T>> {
    (0..calls.len()).map(|rank| result(rank, calls, values, &combine)).collect()
}

/// What one of them gets.
pub(crate) fn result<T: Element>(
    me: usize,
    calls: &[Collective],
    values: &[Array<T>],
    combine: impl Fn(ReduceOp, &[T]) -> T,
) -> Array<T> {
    let (world, mine) = (calls.len(), &values[me]);
    let combined = |op: ReduceOp, index: &[usize]| {
        let all: Vec<T> = values.iter().map(|value| at(value, index)).collect();
        combine(op, &all)
    };
    match &calls[me] {
        Collective::Broadcast { root } => values[root.index()].clone(),
        Collective::AllReduce { op } => made(mine.shape(), |index| combined(*op, index)),
        Collective::Reduce { op, root } if root.index() == me => {
            made(mine.shape(), |index| combined(*op, index))
        }
        Collective::Reduce { .. } => zeroes(mine.shape()),
        Collective::AllGather { .. } if mine.shape().is_empty() => {
            made(&[world], |index| at(&values[index[0]], &[]))
        }
        Collective::AllGather { dim } => {
            let len = mine.shape()[*dim];
            made(&with(mine.shape(), *dim, len * world), |index| {
                at(&values[index[*dim] / len], &with(index, *dim, index[*dim] % len))
            })
        }
        Collective::ReduceScatter { op, dim } => {
            let len = mine.shape()[*dim] / world;
            made(&with(mine.shape(), *dim, len), |index| {
                combined(*op, &with(index, *dim, index[*dim] + me * len))
            })
        }
        Collective::AllToAll => {
            let len = mine.shape()[0] / world;
            made(mine.shape(), |index| {
                let (from, row) = (index[0] / len, index[0] % len);
                at(&values[from], &with(index, 0, me * len + row))
            })
        }
        Collective::AllToAllUneven { from: rows, .. } => {
            made(&with(mine.shape(), 0, rows.iter().sum()), |index| {
                let (mut from, mut row) = (0, index[0]);
                while row >= rows[from] {
                    row -= rows[from];
                    from += 1;
                }
                let Collective::AllToAllUneven { to, .. } = &calls[from] else { unreachable!() };
                let before: usize = to[..me].iter().sum();
                at(&values[from], &with(index, 0, before + row))
            })
        }
        Collective::Permute { pairs } => match pairs.iter().find(|(_, to)| to.index() == me) {
            Some((from, _)) => values[from.index()].clone(),
            None => zeroes(mine.shape()),
        },
        other => unreachable!("the oracle does not know {other}"),
    }
}

/// The number at a place.
pub(crate) fn at<T: Element>(value: &Array<T>, index: &[usize]) -> T {
    assert_eq!(index.len(), value.shape().len());
    let place = index.iter().zip(value.shape()).fold(0, |place, (at, len)| place * len + at);
    value.numbers()[place]
}

/// A value of which each number is made of its place.
pub(crate) fn made<T: Element>(shape: &[usize], number: impl Fn(&[usize]) -> T) -> Array<T> {
    let mut numbers = Vec::new();
    for place in 0..shape.iter().product() {
        let (mut index, mut rest) = (vec![0; shape.len()], place);
        for dim in (0..shape.len()).rev() {
            index[dim] = rest % shape[dim];
            rest /= shape[dim];
        }
        numbers.push(number(&index));
    }
    Array::new(shape, numbers).unwrap()
}

fn zeroes<T: Element>(shape: &[usize]) -> Array<T> {
    made(shape, |_| T::default())
}

/// The same but in one dimension.
fn with(shape: &[usize], dim: usize, len: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[dim] = len;
    shape
}
