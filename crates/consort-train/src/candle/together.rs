//! What all ranks have to know of each other outside of backward.

use std::collections::BTreeMap;

use candle_core::{DType, Var};
use consort::symm::Plain;
use consort::{Group, ReduceOp, bf16, f16};

use crate::agreement::gather;
use crate::candle::model::{Model, set};
use crate::candle::numbers::{is_learned, with_bytes};
use crate::candle::options::Buffers;
use crate::error::{Error, Result};

/// Whether all is well on every rank, which is asked of each: `mine` says what is not.
///
/// # Errors
/// [`Error::Elsewhere`], the same on every rank, if it is not.
pub(crate) fn all_well(group: &Group, what: &'static str, mine: Option<String>) -> Result<()> {
    let all = gather(group, mine.unwrap_or_default().as_bytes())?;
    let first = all.iter().enumerate().find(|(_, words)| !words.is_empty());
    first.map_or(Ok(()), |(rank, words)| {
        let reason = String::from_utf8_lossy(words).into_owned();
        Err(Error::Elsewhere { rank, what, reason })
    })
}

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
                    differences.push(format!("  rank 0 has {mine}, rank {rank} has {its}"));
                    break;
                }
            }
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::Differs { differences: differences.join("\n") }),
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
pub(crate) fn average<'a>(group: &Group, variables: impl Iterator<Item = &'a Var>) -> Result<()> {
    let (learned, whole): (Vec<&Var>, Vec<&Var>) =
        variables.partition(|variable| is_learned(variable.dtype()));
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let of_dtype = learned.iter().copied().filter(|variable| variable.dtype() == dtype);
        let of_dtype: Vec<&Var> = of_dtype.collect();
        match dtype {
            DType::F32 => average_of::<f32>(group, &of_dtype)?,
            DType::F64 => average_of::<f64>(group, &of_dtype)?,
            DType::F16 => average_of::<f16>(group, &of_dtype)?,
            _ => average_of::<bf16>(group, &of_dtype)?,
        }
    }
    broadcast(group, whole.into_iter(), 0)
}

fn average_of<T: Plain>(group: &Group, variables: &[&Var]) -> Result<()> {
    if variables.is_empty() {
        return Ok(());
    }
    let mut numbers: Vec<T> = Vec::new();
    for variable in variables {
        with_bytes(variable, |bytes| numbers.extend_from_slice(bytemuck::cast_slice(bytes)))?;
    }
    group.all_reduce(&mut numbers, ReduceOp::Avg)?;
    let mut rest = &numbers[..];
    for variable in variables {
        let (mine, others) = rest.split_at(variable.elem_count());
        set(variable, bytemuck::cast_slice(mine))?;
        rest = others;
    }
    Ok(())
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
