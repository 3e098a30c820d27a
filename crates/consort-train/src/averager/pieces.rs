//! Memory that is averaged over all ranks.

use std::collections::VecDeque;

use consort::{Call, Dtype, Group, Lists, OwnedCall, ReduceOp, Target, Work};
use consort_sys::reduce::Kernel;

use crate::error::{Error, Result};

/// Replaces pieces of memory by the average of all ranks': many of them, of the same dtypes and sizes
/// everywhere, which travel together.
///
/// ```
/// use consort::Dtype;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (mut weight, mut steps) = ([0.5_f32; 4], [7_i64]);
/// consort_train::average(&group, &mut [
///     (Dtype::F32, bytemuck::cast_slice_mut(&mut weight)),
///     (Dtype::I64, bytemuck::cast_slice_mut(&mut steps)),
/// ])?;
/// assert_eq!((weight, steps), ([0.5; 4], [7]));
/// # Ok::<(), consort_train::Error>(())
/// ```
///
/// # Errors
/// When a piece is no whole number of elements, or its dtype has no average; nothing is averaged then. Why the
/// group has ended, if it has.
pub fn average(group: &Group, pieces: &mut [(Dtype, &mut [u8])]) -> Result<()> {
    check(pieces)?;
    let mut on_their_way: VecDeque<(Vec<usize>, Work<Batch>)> = VecDeque::new();
    let mut batches = batches(pieces).into_iter();
    loop {
        if on_their_way.len() < AT_ONCE
            && let Some(members) = batches.next()
        {
            let dtype = pieces[members[0]].0;
            let together: Vec<&[u8]> = members.iter().map(|&at| &*pieces[at].1).collect();
            let bytes = together.concat();
            let work = group.call_async(Batch { dtype, bytes }).map_err(consort::Error::from)?;
            on_their_way.push_back((members, work));
        } else if let Some((members, work)) = on_their_way.pop_front() {
            let batch = work.wait().map_err(consort::Error::from)?;
            let mut rest = &batch.bytes[..];
            for at in members {
                let (mine, others) = rest.split_at(pieces[at].1.len());
                pieces[at].1.copy_from_slice(mine);
                rest = others;
            }
        } else {
            return Ok(());
        }
    }
}

/// Pieces that travel together.
struct Batch {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl OwnedCall for Batch {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let output = Target::from(&mut self.bytes[..]);
        Call::AllReduce { dtype: self.dtype, op: ReduceOp::Avg, input: output.into(), output }
    }
}

fn check(pieces: &[(Dtype, &mut [u8])]) -> Result<()> {
    for (at, (dtype, piece)) in pieces.iter().enumerate() {
        if !piece.len().is_multiple_of(dtype.size()) {
            let what = format!("piece {at} has {} bytes: no whole number of {dtype}", piece.len());
            return Err(Error::Argument(what));
        }
        Kernel::new(*dtype, ReduceOp::Avg, 1).map_err(consort::Error::from)?;
    }
    Ok(())
}

/// Which pieces travel together: of one dtype, in their order.
fn batches(pieces: &[(Dtype, &mut [u8])]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&at| pieces[at].0.code());
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for at in order {
        let (dtype, piece) = &pieces[at];
        bytes += piece.len();
        match batches.last_mut() {
            Some(batch) if pieces[batch[0]].0 == *dtype && bytes <= BATCH => batch.push(at),
            _ => {
                batches.push(vec![at]);
                bytes = piece.len();
            }
        }
    }
    batches
}

/// So many bytes travel together.
const BATCH: usize = 32 << 20;
/// So many batches at once.
const AT_ONCE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_dtype_travel_together_unless_they_are_too_many() {
        let (mut half, mut more) = (vec![0_u8; BATCH / 2], vec![0; BATCH / 2 + 4]);
        let (mut a, mut b, mut c, mut d) = ([0; 8], [0; 16], [0; 4], []);
        let pieces: [(Dtype, &mut [u8]); 6] = [
            (Dtype::F64, &mut a),
            (Dtype::F32, &mut half),
            (Dtype::F32, &mut c),
            (Dtype::F64, &mut b),
            (Dtype::F32, &mut more),
            (Dtype::F32, &mut d),
        ];
        assert_eq!(batches(&pieces), [vec![1, 2], vec![4, 5], vec![0, 3]]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn half_a_number_and_what_has_no_average_are_refused() {
        let (mut whole, mut half) = ([0_u8; 8], [0_u8; 6]);
        let error = check(&[(Dtype::F32, &mut whole), (Dtype::F32, &mut half)]).unwrap_err();
        assert_eq!(error.to_string(), "piece 1 has 6 bytes: no whole number of f32");
        assert!(check(&[(Dtype::Bool, &mut whole)]).is_err());
    }
}
