//! What is measured, what goes in, and what has to come out.

use candle_core::{Device, Result, Tensor};
use consort::functional::Collective;
use consort::{Group, ReduceOp};

/// A call on matrices of a size, as one of its ranks sees it.
pub(crate) struct Point {
    pub(crate) op: &'static str,
    pub(crate) collective: &'static Collective,
    /// Along which values are joined or cut.
    pub(crate) dim: usize,
    /// Of the larger matrix, in which there is at least one number for each rank.
    pub(crate) bytes: usize,
    pub(crate) shape: [usize; 2],
    pub(crate) given: Vec<f32>,
    pub(crate) expected: Vec<f32>,
}

impl Point {
    pub(crate) fn new(
        op: &'static str,
        collective: &'static Collective,
        bytes: usize,
        group: &Group,
    ) -> Result<Self> {
        let (world, rank) = (group.world(), group.rank().index());
        let (dim, parts) = match *collective {
            Collective::AllGather { dim } | Collective::ReduceScatter { dim, .. } => (dim, world),
            _ => (0, 1),
        };
        let mut shape = larger(bytes, dim, parts);
        if matches!(collective, Collective::AllGather { .. }) {
            shape[dim] /= parts;
        }
        let every = (0..world).map(|rank| values(rank, shape)).collect::<Result<Vec<_>>>()?;
        let sum = || every[1..].iter().try_fold(every[0].clone(), |sum, x| sum + x);
        let expected = match collective {
            Collective::AllGather { .. } => Tensor::cat(&every, dim)?,
            Collective::ReduceScatter { .. } => sum()?.chunk(world, dim)?[rank].clone(),
            _ => sum()?,
        };
        let (given, expected) = (numbers(&every[rank])?, numbers(&expected)?);
        Ok(Self { op, collective, dim, bytes, shape, given, expected })
    }
}

/// The numbers of a tensor, row by row.
pub(crate) fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}

/// The shape of the larger matrix: square if possible, of one row or column otherwise.
fn larger(bytes: usize, dim: usize, parts: usize) -> [usize; 2] {
    let count = (bytes / size_of::<f32>()).max(1).next_multiple_of(parts);
    let side = count.isqrt();
    match dim {
        _ if side * side == count && side.is_multiple_of(parts) => [side, side],
        0 => [count, 1],
        _ => [1, count],
    }
}

/// Small numbers that tell rank and place; the peer has the same. They repeat after a prime, so that no shift
/// by a power of two hides.
fn values(rank: usize, shape: [usize; 2]) -> Result<Tensor> {
    let value = |i| ((rank * 7 + i % 1021) % 64) as f32;
    Tensor::from_iter((0..shape[0] * shape[1]).map(value), &Device::Cpu)?.reshape(&shape)
}

/// All that are measured.
pub(crate) static OPERATIONS: [(&str, Collective); 6] = [
    ("all_reduce", Collective::AllReduce { op: ReduceOp::Sum }),
    ("all_reduce_backward", Collective::AllReduce { op: ReduceOp::Sum }),
    ("all_gather", Collective::AllGather { dim: 0 }),
    ("all_gather", Collective::AllGather { dim: 1 }),
    ("reduce_scatter", Collective::ReduceScatter { op: ReduceOp::Sum, dim: 0 }),
    ("reduce_scatter", Collective::ReduceScatter { op: ReduceOp::Sum, dim: 1 }),
];
