//! Values that change hands, by messages between those concerned.

use super::messages::{receive, send_memory};
use super::moving::copied;
use super::pending::{Both, Pending};
use super::plan::Plan;
use super::value::{Memory, Value};
use crate::call::Description;
use crate::error::Result;
use crate::group::{Group, Rank};
use crate::p2p::Tag;

/// Sends a value to whom the pairs say, and receives one from whom they say. Pairs were checked.
pub(super) fn begin<V: Value>(
    pairs: &[(Rank, Rank)],
    plan: &Plan,
    x: &V,
    group: &Group,
) -> Result<Pending<V>> {
    let (me, meta) = (group.rank(), plan.x.clone());
    let tag = tag(pairs, plan, group);
    let from = pairs.iter().find(|&&(_, to)| to == me).map(|&(from, _)| from);
    let to = pairs.iter().find(|&&(from, _)| from == me).map(|&(_, to)| to);
    // Whoever only pretends receives nothing, and goes on with what it has.
    let is_kept = from.is_some() && !group.moves_data()?;
    let room = match is_kept {
        true => copied(x, &meta, |view| view)?,
        false => V::Memory::zeroed(meta.dtype, meta.count())?,
    };
    let sent = match to {
        Some(to) => send_memory(copied(x, &meta, |view| view)?, meta.dtype, to, tag, group)?,
        None => Pending::ready(()),
    };
    let received = match from {
        Some(from) => receive(room, meta, from, tag, group)?,
        None => Pending::ready(V::from_memory(room, meta)),
    };
    // What was sent is there when all is done: a process may end then.
    Ok(Pending::after(Both(received, sent), |both| Ok(both?.0)))
}

/// What the messages are about: all ranks say the same only if they have made as many calls on values, and
/// mean the same pairs and shapes, for the same purpose. But for one chance in 2³¹ a message of another call
/// is not taken for one of this.
fn tag(pairs: &[(Rank, Rank)], plan: &Plan, group: &Group) -> Tag {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    let words = pairs.iter().flat_map(|(from, to)| [from.index(), to.index()]);
    let (number, back) = (group.count_value() as usize, plan.back_through.unwrap_or(0) as usize);
    let all = [number, back].into_iter().chain(words).chain(plan.x.shape.iter().copied());
    Tag::from(FIRST_TAG | Description::digest_of(all))
}

/// Tags of programs are below it, unless they do not care.
const FIRST_TAG: u32 = 1 << 31;
