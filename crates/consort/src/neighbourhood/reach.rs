//! Whether the ranks of a host can read each other's private memory.
//!
//! They use it only if every rank can reach every other, so that all choose the same way for a
//! call. That is tried out once, and agreed upon.

use std::collections::BTreeMap;

use consort_sys::pass::PassError;
use consort_sys::reach::{Beacon, Reach, Sight};

use super::round::Round;
use crate::error::{Error, Result};

/// Tries to reach the processes of these ranks. They are all reached, or none: then the map is
/// empty.
///
/// # Errors
/// When a rank does not try in time.
pub(super) fn try_out(
    round: &Round<'_>,
    processes: &BTreeMap<u32, u32>,
) -> Result<BTreeMap<u32, Reach>> {
    let beacon = Beacon::light().map_err(|_| Error::Sharing(PassError::Random))?;
    let Sight { address, light } = beacon.sight();
    round.tell("beacon", &[address.to_le_bytes(), light.to_le_bytes()].concat())?;
    let mut reached = BTreeMap::new();
    for (member, told) in round.here.iter().zip(round.hear("beacon")?) {
        let rank = member.rank.get();
        let process = processes.get(&rank).zip(read_sight(&told));
        if let Some(reach) = process.and_then(|(&process, sight)| Reach::try_out(process, sight)) {
            reached.insert(rank, reach);
        }
    }
    // Nobody puts out its light before everyone has looked.
    let mine = u8::from(reached.len() == processes.len());
    round.tell("reach", &[mine])?;
    if round.hear("reach")?.iter().any(|told| told[..] != [1]) {
        reached.clear();
    }
    Ok(reached)
}

fn read_sight(bytes: &[u8]) -> Option<Sight> {
    let (address, light) = bytes.split_at_checked(8)?;
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    Some(Sight { address: number(address)?, light: number(light)? })
}
