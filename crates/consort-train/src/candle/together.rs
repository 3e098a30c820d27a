//! What all ranks have to know of each other outside of backward.

use std::collections::BTreeMap;

use candle_core::Var;
use consort::Group;

pub(crate) use crate::agreement::all_well;
use crate::agreement::{gather, in_lines};
use crate::candle::model::{Model, set};
use crate::candle::numbers::{dtype, is_learned, with_bytes};
use crate::candle::options::Buffers;
use crate::error::{Error, Result};

/// Whether all ranks have the same buffers, and treat them in the same way.
///
/// # Errors
/// [`Error::Differs`] on every rank, if they do not.
pub(crate) fn agree_on_buffers(group: &Group, model: &Model, buffers: Buffers) -> Result<()> {
    let mut lines = vec![format!("buffers: {buffers:?}")];
    for buffer in &model.buffers {
        let (name, dtype, dims) = (&buffer.name, buffer.variable.dtype(), buffer.variable.dims());
        lines.push(format!("buffer {name:?}, {} {dims:?}", dtype.as_str()));
    }
    let all = gather(group, lines.join("\n").as_bytes())?;
    let all: Vec<_> = all.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let mut differences = Vec::new();
    for (rank, other) in all.iter().enumerate().skip(1) {
        let (mut mine, mut its) = (all[0].lines(), other.lines());
        loop {
            match (mine.next(), its.next()) {
                (None, None) => break,
                (mine, its) if mine == its => {}
                (mine, its) => {
                    let (mine, its) = (mine.unwrap_or(NOTHING), its.unwrap_or(NOTHING));
                    differences.push(format!("rank 0 has {mine}, rank {rank} has {its}"));
                    break;
                }
            }
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::Differs { differences: in_lines(&differences) }),
    }
}

/// Gives all ranks one rank's variables.
pub(crate) fn broadcast<'a>(
    group: &Group,
    variables: impl Iterator<Item = &'a Var> + Clone,
    root: u32,
) -> Result<()> {
    exchange(variables, |pieces| crate::broadcast(group, pieces, root))
}

/// Lets something be done with the bytes of variables, and changes those whose bytes are others then.
pub(crate) fn exchange<'a>(
    variables: impl Iterator<Item = &'a Var> + Clone,
    act: impl FnOnce(&mut [&mut [u8]]) -> Result<()>,
) -> Result<()> {
    let read = |variable: &Var| with_bytes(variable, <[u8]>::to_vec);
    let mut all: Vec<Vec<u8>> = variables.clone().map(read).collect::<Result<_, _>>()?;
    let mut pieces: Vec<&mut [u8]> = all.iter_mut().map(|bytes| &mut bytes[..]).collect();
    act(&mut pieces)?;
    for (variable, bytes) in variables.zip(&all) {
        if !with_bytes(variable, |before| before == bytes)? {
            set(variable, bytes)?;
        }
    }
    Ok(())
}

/// Gives all ranks the averages of their variables, and whole numbers from rank 0.
pub(crate) fn average<'a>(
    group: &Group,
    variables: impl Iterator<Item = &'a Var> + Clone,
) -> Result<()> {
    let learned = variables.clone().filter(|it| is_learned(it.dtype()));
    let dtypes = learned.clone().map(|it| dtype(it.dtype())).collect::<Result<Vec<_>, _>>()?;
    exchange(learned, |pieces| {
        let pieces = dtypes.into_iter().zip(pieces.iter_mut().map(|piece| &mut **piece));
        crate::average(group, &mut pieces.collect::<Vec<_>>())
    })?;
    broadcast(group, variables.filter(|it| !is_learned(it.dtype())), 0)
}

/// Whether all ranks have the same parameters, bit by bit.
///
/// # Errors
/// [`Error::Diverged`], the same on every rank, if they do not.
pub(crate) fn verify(group: &Group, model: &Model) -> Result<()> {
    let mut digests = Vec::new();
    for parameter in &model.parameters {
        let digest = with_bytes(&parameter.variable, |bytes| *blake3::hash(bytes).as_bytes())?;
        digests.push(digest);
    }
    let all = *blake3::hash(digests.as_flattened()).as_bytes();
    let mut alls = vec![0; all.len() * group.world()];
    group.all_gather(&all, &mut alls)?;
    if alls.chunks(all.len()).all(|other| other == all) {
        return Ok(());
    }
    let mut every = vec![0; digests.as_flattened().len() * group.world()];
    group.all_gather(digests.as_flattened(), &mut every)?;
    let of_rank: Vec<&[u8]> = every.chunks(digests.as_flattened().len().max(1)).collect();
    for (index, parameter) in model.parameters.iter().enumerate() {
        let mut camps: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let part = index * all.len()..(index + 1) * all.len();
        for (rank, digests) in of_rank.iter().enumerate() {
            let same = of_rank.iter().position(|it| it[part.clone()] == digests[part.clone()]);
            camps.entry(same.unwrap_or(rank)).or_default().push(rank.to_string());
        }
        if camps.len() > 1 {
            let camps = camps.into_values().map(|ranks| ranks.join(", ")).collect();
            return Err(Error::Diverged { name: parameter.name.clone(), camps });
        }
    }
    Ok(())
}

const NOTHING: &str = "nothing more";
