//! Which memory of a call may be the same.

use std::fmt::Display;

use consort_sys::view::{Source, Target};

use super::parts::Parts;
use super::refuse;
use crate::error::Result;

/// Whether both are the same memory.
pub(super) fn are_same(one: Source<'_>, other: Source<'_>) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

/// The same memory, or none of it.
pub(super) fn all_or_nothing(
    name: impl Display,
    one: Source<'_>,
    other_name: &str,
    other: Source<'_>,
) -> Result<()> {
    if !overlap(one, other) || are_same(one, other) {
        return Ok(());
    }
    refuse(format!("{name} overlaps a part of {other_name}: give the same memory or another"))
}

/// What a rank has for itself may be its part of all, and nothing of the others'.
pub(super) fn with_one_part(
    me: usize,
    world: usize,
    parts: Parts<'_>,
    name: &str,
    own: Source<'_>,
) -> Result<()> {
    if parts.in_one().is_some_and(|all| !overlap(all, own)) {
        return Ok(());
    }
    all_or_nothing(parts.name_of(me), parts.part(me, world), name, own)?;
    let others = || (0..world).filter(|&rank| rank != me);
    match others().find(|&rank| overlap(parts.part(rank, world), own)) {
        None => Ok(()),
        Some(rank) => refuse(format!("{name} overlaps {}", parts.name_of(rank))),
    }
}

/// In place, part by part, or nowhere near.
pub(super) fn part_by_part(world: usize, inputs: Parts<'_>, outputs: Parts<'_>) -> Result<()> {
    if let (Some(input), Some(output)) = (inputs.in_one(), outputs.in_one())
        && !overlap(input, output)
    {
        return Ok(());
    }
    for from in 0..world {
        for to in 0..world {
            let (input, output) = (inputs.part(from, world), outputs.part(to, world));
            let same = from == to && are_same(input, output);
            if !same && overlap(output, input) {
                let (output, input) = (outputs.name_of(to), inputs.name_of(from));
                return refuse(format!(
                    "{output} overlaps {input}: in place, each rank's part has to be the same \
                     memory"
                ));
            }
        }
    }
    Ok(())
}

/// Nothing is written twice.
pub(super) fn none_of(outputs: &[Target<'_>]) -> Result<()> {
    let mut order: Vec<usize> = (0..outputs.len()).filter(|&i| !outputs[i].is_empty()).collect();
    order.sort_unstable_by_key(|&i| outputs[i].as_mut_ptr());
    for pair in order.windows(2) {
        if overlap(outputs[pair[0]].into(), outputs[pair[1]].into()) {
            let (a, b) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            return refuse(format!("outputs[{a}] and outputs[{b}] overlap"));
        }
    }
    Ok(())
}

fn overlap(one: Source<'_>, other: Source<'_>) -> bool {
    let (start, other_start) = (one.as_ptr().addr(), other.as_ptr().addr());
    !one.is_empty()
        && !other.is_empty()
        && start < other_start + other.len()
        && other_start < start + one.len()
}
