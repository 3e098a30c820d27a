//! Whether the ranks of a host may hand each other memory.
//!
//! Containers can have a kernel, its processes and its network in common, and yet be kept from each
//! other: they run as different users, or a security module lets no socket of one reach the other. That
//! is tried out at a door that nobody opens, and all ranks hear of it. Ranks that may not share memory
//! then count as ranks of different hosts, and are reached over TCP.
//!
//! A rank that has ended, or lacks memory or descriptors, is another matter: that is an error, which is
//! found when memory is handed over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use consort_store::{Deadline, Store};
use consort_sys::pass::{Bar, Bell};

use super::round::Round;
use crate::error::{Error, Result};
use crate::group::Member;
use crate::verdict::{decode, encode};

/// Gives members who may not share memory with the others of their host hosts of their own. All ranks
/// of the world find the same.
///
/// # Errors
/// When a rank does not come so far, or tells nonsense.
pub(crate) fn set_apart(
    meeting: &dyn Store,
    me: u32,
    members: &mut [Member],
    until: Deadline,
) -> Result<()> {
    let round = Round::new(meeting, me, members, until);
    if round.here.len() > 1 {
        let found = try_out(&round).map_err(|error| round.give_up(error))?;
        if round.here[0].rank.get() == me {
            meeting.set(&key(me), &encode(&found))?;
        }
    }
    let (mut firsts, mut hosts) = (HashMap::new(), BTreeMap::<u32, Vec<u32>>::new());
    for Member { rank, host, .. } in members.iter() {
        let first = *firsts.entry(host).or_insert(rank.get());
        hosts.entry(first).or_default().push(rank.get());
    }
    hosts.retain(|_, ranks| ranks.len() > 1);
    let keys: Vec<String> = hosts.keys().copied().map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for ((first, ranks), told) in hosts.into_iter().zip(round.await_keys(&keys)?) {
        let nonsense = |what| Error::Argument(format!("what rank {first} told of its host {what}"));
        let barred: Vec<Barred> = decode(&told).map_err(nonsense)?;
        let parts = parts(&ranks, &barred);
        if let Some((one, other, why)) = barred.first().filter(|_| me == first) {
            tracing::warn!(
                "rank {one} may not share memory with rank {other} on this host ({why}): they are \
                 reached over TCP"
            );
        }
        for part in parts.iter().skip(1) {
            for &rank in part {
                let member = &mut members[rank as usize];
                member.host = member.host.apart(part[0]);
            }
        }
    }
    Ok(())
}

/// A rank that may not reach another, and why.
type Barred = (u32, u32, String);

/// Tries to reach everyone on this host. Gives what all of them have found.
fn try_out(round: &Round<'_>) -> Result<Vec<Barred>> {
    let bell = Bell::hang();
    let mine: Bells = match &bell {
        Ok(bell) => Ok(bell.name().to_owned()),
        Err(Bar::Lack(_)) => Err(None),
        Err(Bar::Forbidden(why)) => Err(Some(why.clone())),
    };
    round.tell("bell", &encode(&mine))?;
    let mut barred: Vec<Barred> = Vec::new();
    for (member, told) in round.here.iter().zip(round.hear("bell")?) {
        let rank = member.rank.get();
        let nonsense = |what| Error::Argument(format!("what rank {rank} told of its bell {what}"));
        let theirs: Bells = decode(&told).map_err(nonsense)?;
        match (&mine, theirs) {
            _ if rank == round.me => {}
            (Err(Some(why)), _) => barred.push((round.me, rank, why.clone())),
            (Ok(_), Ok(name)) => {
                if let Err(Bar::Forbidden(why)) = Bell::ring(&name) {
                    barred.push((round.me, rank, why));
                }
            }
            // It says so itself, or it finds out later what it lacks.
            _ => {}
        }
    }
    round.tell("barred", &encode(&barred))?;
    let mut all = Vec::new();
    for (member, told) in round.here.iter().zip(round.hear("barred")?) {
        let rank = member.rank.get();
        let nonsense = |what| Error::Argument(format!("what rank {rank} told of others {what}"));
        all.extend(decode::<Vec<Barred>>(&told).map_err(nonsense)?);
    }
    // Nobody takes its bell down before everyone has rung.
    drop(bell);
    Ok(all)
}

/// A bell's name; or why there is none, if it is forbidden.
type Bells = Result<String, Option<String>>;

/// Parts the ranks of a host so that in each part all may reach all. Each rank is in the first part
/// that it can be in.
fn parts(ranks: &[u32], barred: &[Barred]) -> Vec<Vec<u32>> {
    let barred: BTreeSet<(u32, u32)> =
        barred.iter().flat_map(|&(one, other, _)| [(one, other), (other, one)]).collect();
    let mut parts: Vec<Vec<u32>> = Vec::new();
    for &rank in ranks {
        let fits = |part: &&mut Vec<u32>| part.iter().all(|&it| !barred.contains(&(rank, it)));
        match parts.iter_mut().find(fits) {
            Some(part) => part.push(rank),
            None => parts.push(vec![rank]),
        }
    }
    parts
}

fn key(rank: u32) -> String {
    format!("apart/{rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barred(pairs: &[(u32, u32)]) -> Vec<Barred> {
        pairs.iter().map(|&(one, other)| (one, other, String::new())).collect()
    }

    #[test]
    fn ranks_that_all_reach_each_other_stay_together() {
        assert_eq!(parts(&[0, 2, 5], &[]), [[0, 2, 5]]);
    }

    #[test]
    fn a_rank_that_reaches_nobody_is_alone() {
        let barred = barred(&[(2, 0), (2, 5), (2, 7)]);
        assert_eq!(parts(&[0, 2, 5, 7], &barred), [vec![0, 5, 7], vec![2]]);
    }

    #[test]
    fn those_of_two_containers_stay_with_their_own() {
        let barred = barred(&[(0, 2), (0, 3), (1, 2), (1, 3)]);
        assert_eq!(parts(&[0, 1, 2, 3], &barred), [[0, 1], [2, 3]]);
    }

    #[test]
    fn in_no_part_is_anybody_barred_from_another() {
        let barred = barred(&[(0, 1), (1, 2)]);
        assert_eq!(parts(&[0, 1, 2], &barred), [vec![0, 2], vec![1]]);
    }
}
