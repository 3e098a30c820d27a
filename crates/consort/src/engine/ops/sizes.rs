//! How large the largest of uneven parts is, which not every rank knows.

use consort_sys::view::{Source, Target};

use super::super::lane::{Lane, Patient};
use super::tables::Tables;
use crate::call::{Call, Inputs, Outputs};
use crate::error::{Error, Result};

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
    let drive = lane.prepare(Tables::new(&[input.len() as u64], learn));
    lane.go_on(drive, patient).await?;
    if let Some(outputs) = outputs {
        for (rank, &sent) in sizes.iter().enumerate() {
            agree(lane, patient, rank, root, sent, outputs.part(rank, world).len() as u64)?;
        }
    }
    bounded(sizes.into_iter().max())
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
    let drive = lane.prepare(Tables::new(&mine, learn));
    lane.go_on(drive, patient).await?;
    agree(lane, patient, root, me, sent[me], output.len() as u64)?;
    bounded(sent.into_iter().max())
}

async fn exchange(
    lane: &mut Lane,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    patient: &mut Patient<'_>,
) -> Result<usize> {
    let (me, world) = (lane.me(), lane.world());
    let mine: Vec<u64> = (0..world).map(|rank| inputs.part(rank, world).len() as u64).collect();
    let mut for_me = vec![0; world];
    let mut largest = 0;
    let learn = |rank: usize, table: &[u64]| {
        for_me[rank] = table[me];
        largest = largest.max(table.iter().copied().max().unwrap_or(0));
    };
    let drive = lane.prepare(Tables::new(&mine, learn));
    lane.go_on(drive, patient).await?;
    for (rank, sent) in for_me.into_iter().enumerate() {
        agree(lane, patient, rank, me, sent, outputs.part(rank, world).len() as u64)?;
    }
    bounded(Some(largest))
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

fn bounded(largest: Option<u64>) -> Result<usize> {
    let largest = largest.unwrap_or(0);
    usize::try_from(largest)
        .ok()
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| Error::Argument(format!("a rank speaks of a part of {largest} bytes")))
}
