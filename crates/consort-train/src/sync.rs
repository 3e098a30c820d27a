//! The same bytes on all ranks.

use std::collections::VecDeque;

use consort::{Group, Work};

use crate::error::Result;

/// Gives all ranks what one of them has: many pieces of memory, of the same sizes everywhere, which
/// travel together.
///
/// ```
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (mut weight, mut bias) = ([1_u8; 64], [2_u8; 8]);
/// consort_train::broadcast(&group, &mut [&mut weight, &mut bias], 0)?;
/// # Ok::<(), consort_train::Error>(())
/// ```
///
/// # Errors
/// Why the group has ended, if it has.
pub fn broadcast(group: &Group, pieces: &mut [&mut [u8]], root: u32) -> Result<()> {
    let mut on_their_way: VecDeque<(usize, usize, Work<Vec<u8>>)> = VecDeque::new();
    let mut first = 0;
    while first < pieces.len() || !on_their_way.is_empty() {
        if first < pieces.len() && on_their_way.len() < AT_ONCE {
            let end = end_of_batch(pieces, first);
            let batch: Vec<u8> = pieces[first..end].concat();
            let work = group.broadcast_async(batch, root).map_err(consort::Error::from)?;
            on_their_way.push_back((first, end, work));
            first = end;
        } else if let Some((first, end, work)) = on_their_way.pop_front() {
            let batch = work.wait().map_err(consort::Error::from)?;
            let mut rest = &batch[..];
            for piece in &mut pieces[first..end] {
                let (mine, others) = rest.split_at(piece.len());
                piece.copy_from_slice(mine);
                rest = others;
            }
        }
    }
    Ok(())
}

/// How many pieces from the first one on travel together: at least one.
fn end_of_batch(pieces: &[&mut [u8]], first: usize) -> usize {
    let mut bytes = 0;
    let fits = |piece: &&&mut [u8]| {
        bytes += piece.len();
        bytes <= BATCH
    };
    (first + pieces[first..].iter().take_while(fits).count()).max(first + 1)
}

/// So many bytes travel together.
const BATCH: usize = 32 << 20;
/// So many batches at once.
const AT_ONCE: usize = 2;
