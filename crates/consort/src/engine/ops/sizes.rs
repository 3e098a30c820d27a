//! How large the largest of uneven parts is, which not every rank knows.

use consort_sys::view::{Source, Target};

use super::super::lane::Lane;
use super::super::patient::Patient;
use super::slot;
use super::tables::Tables;
use crate::call::{Call, Inputs, Outputs};
use crate::error::Result;

/// Whether ranks have to tell each other the sizes of their parts first.
#[inline]
pub(super) fn is_uneven(call: &Call<'_>) -> bool {
    match *call {
        Call::Gather { uneven, .. }
        | Call::Scatter { uneven, .. }
        | Call::AllToAll { uneven, .. } => uneven,
        _ => false,
    }
}

/// Lets all ranks tell their sizes, and compares what one sends with what another expects.
pub(super) async fn largest_part(
    lane: &mut Lane,
    call: &Call<'_>,
    patient: &mut Patient<'_>,
) -> Result<usize> {
    match *call {
        Call::Gather { root, input, outputs, .. } => {
            gather(lane, root.index(), input, outputs, patient).await
        }
        Call::Scatter { root, inputs, output, .. } => {
            scatter(lane, root.index(), inputs, output, patient).await
        }
        Call::AllToAll { inputs, outputs, .. } => exchange(lane, inputs, outputs, patient).await,
        _ => Ok(0),
    }
}

async fn gather(
    lane: &mut Lane,
    root: usize,
    input: Source<'_>,
    outputs: Option<Outputs<'_>>,
    patient: &mut Patient<'_>,
) -> Result<usize> {
    let world = lane.world();
    let mut sizes = vec![0; world];
    let learn = |rank: usize, table: &[u64]| sizes[rank] = table[0];
    let drive = lane.prepare(Tables::new(&[input.len() as u64], learn))?;
    lane.go_on(drive, patient).await?;
    if let Some(outputs) = outputs {
        for (rank, &sent) in sizes.iter().enumerate() {
            agree(lane, patient, rank, root, sent, outputs.part(rank, world).len() as u64)?;
        }
    }
    largest_of(lane, patient, sizes.into_iter().enumerate())
}

async fn scatter(
    lane: &mut Lane,
    root: usize,
    inputs: Option<Inputs<'_>>,
    output: Target<'_>,
    patient: &mut Patient<'_>,
) -> Result<usize> {
    let (me, world) = (lane.me(), lane.world());
    let mine: Vec<u64> = match inputs {
        Some(inputs) => (0..world).map(|rank| inputs.part(rank, world).len() as u64).collect(),
        None => vec![output.len() as u64],
    };
    let mut sent = Vec::new();
    let learn = |rank, table: &[u64]| {
        if rank == root {
            sent = table.to_vec();
        }
    };
    let drive = lane.prepare(Tables::new(&mine, learn))?;
    lane.go_on(drive, patient).await?;
    let Some(&for_me) = sent.get(me) else {
        return Err(lane.disbelieve(patient, root, INCOMPLETE));
    };
    agree(lane, patient, root, me, for_me, output.len() as u64)?;
    largest_of(lane, patient, sent.into_iter().map(|bytes| (root, bytes)))
}

async fn exchange(
    lane: &mut Lane,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    patient: &mut Patient<'_>,
) -> Result<usize> {
    let (me, world) = (lane.me(), lane.world());
    let mine: Vec<u64> = (0..world).map(|rank| inputs.part(rank, world).len() as u64).collect();
    let mut sent = vec![Vec::new(); world];
    let learn = |rank: usize, table: &[u64]| sent[rank] = table.to_vec();
    let drive = lane.prepare(Tables::new(&mine, learn))?;
    lane.go_on(drive, patient).await?;
    for (rank, table) in sent.iter().enumerate() {
        let Some(&for_me) = table.get(me) else {
            return Err(lane.disbelieve(patient, rank, INCOMPLETE));
        };
        agree(lane, patient, rank, me, for_me, outputs.part(rank, world).len() as u64)?;
    }
    let largest = sent.iter().map(|table| table.iter().copied().max().unwrap_or(0)).enumerate();
    largest_of(lane, patient, largest)
}

/// What one rank sends is what another one expects, or the group fails.
fn agree(
    lane: &mut Lane,
    patient: &Patient<'_>,
    from: usize,
    to: usize,
    sent: u64,
    expected: u64,
) -> Result<()> {
    if sent == expected {
        return Ok(());
    }
    Err(lane.disagree(patient, from, to, sent, expected))
}

/// The largest of the parts that ranks speak of, if all of them could be in memory.
fn largest_of(
    lane: &mut Lane,
    patient: &Patient<'_>,
    parts: impl Iterator<Item = (usize, u64)>,
) -> Result<usize> {
    let most = most_bytes(lane.world());
    let mut largest = 0;
    for (rank, bytes) in parts {
        match usize::try_from(bytes).ok().filter(|&bytes| bytes <= most) {
            Some(bytes) => largest = largest.max(bytes),
            None => {
                let what = format!("a part of {bytes} bytes");
                return Err(lane.disbelieve(patient, rank, &what));
            }
        }
    }
    Ok(largest)
}

/// So many bytes can be dealt in slots that are counted with 32 bits, and are more than any memory
/// has.
fn most_bytes(world: usize) -> usize {
    slot(world).saturating_mul(u32::MAX as usize)
}

const INCOMPLETE: &str = "sizes for only some of the ranks";

#[cfg(test)]
mod tests;
