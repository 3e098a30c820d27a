//! How the ranks of a host find each other's doors.

use consort_sys::pass::{Door, PassError, PeerDoor};
use serde::{Deserialize, Serialize};

use super::round::Round;
use crate::engine::Place;
use crate::error::{Error, Result};
use crate::verdict::{decode, encode};

/// What the ranks of a host have told.
#[derive(Debug)]
pub(super) struct Found {
    /// Everyone's door but this rank's.
    pub(super) doors: Vec<PeerDoor>,
    /// Everyone's place for the group of all, in the order of ranks.
    pub(super) places: Vec<[u64; 3]>,
    /// What only these ranks know: nobody else can read the store.
    pub(super) token: [u8; TOKEN],
}

/// What a rank tells.
#[derive(Debug, Serialize, Deserialize)]
struct Address {
    door: String,
    place: [u64; 3],
    /// From the first of them.
    token: Option<[u8; TOKEN]>,
}

/// Tells the other ranks where this one's door is, and hears where theirs are.
///
/// # Errors
/// When a rank does not come so far, or tells nonsense.
pub(super) fn find(round: &Round<'_>, door: &Door, place: &Place) -> Result<Found> {
    let mut token = None;
    if round.here[0].rank.get() == round.me {
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes).map_err(|_| Error::Sharing(PassError::Random))?;
        token = Some(bytes);
    }
    let address = Address { door: door.name().to_owned(), place: place.offsets(), token };
    round.tell("door", &encode(&address))?;
    read(round, &round.hear("door")?)
}

fn read(round: &Round<'_>, told: &[Vec<u8>]) -> Result<Found> {
    let (mut doors, mut places, mut token) = (Vec::new(), Vec::new(), None);
    for (member, told) in round.here.iter().zip(told) {
        let rank = member.rank.get();
        let nonsense = |what| Error::Argument(format!("what rank {rank} told of its door {what}"));
        let address: Address = decode(told).map_err(nonsense)?;
        if token.is_none() {
            token = Some(address.token.ok_or_else(|| nonsense("has no token".to_owned()))?);
        }
        places.push(address.place);
        if rank != round.me {
            let process = Some(member.process);
            doors.push(PeerDoor { rank, name: address.door, process });
        }
    }
    Ok(Found { doors, places, token: token.expect("this rank itself is here") })
}

const TOKEN: usize = 32;

#[cfg(test)]
mod tests {
    use consort_store::{Deadline, MemStore};
    use consort_sys::host::HostId;

    use super::*;
    use crate::group::{Member, Rank};

    /// What rank 1 finds when these are the words of rank 0, and its own are in order.
    fn found(told: &[u8]) -> Result<Found> {
        let member = |rank| Member {
            rank: Rank(rank),
            host: HostId::here().unwrap(),
            address: [127, 0, 0, 1].into(),
            process: std::process::id(),
        };
        let (meeting, members) = (MemStore::new(), [member(0), member(1)]);
        let round = Round::new(&meeting, 1, &members, Deadline::now());
        read(&round, &[told.to_vec(), address(None)])
    }

    fn address(token: Option<[u8; TOKEN]>) -> Vec<u8> {
        encode(&Address { door: "a door".to_owned(), place: [1, 2, 3], token })
    }

    #[test]
    fn the_token_is_the_first_rank_s() {
        let found = found(&address(Some([7; TOKEN]))).unwrap();
        assert_eq!((found.token, found.places), ([7; TOKEN], vec![[1, 2, 3]; 2]));
        assert_eq!((found.doors.len(), found.doors[0].rank), (1, 0));
    }

    #[test]
    fn a_token_that_is_missing_or_too_short_is_an_error_that_names_its_rank() {
        let mut short = address(Some([7; TOKEN]));
        short.pop();
        for told in [address(None), short, Vec::new()] {
            let error = found(&told).unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            assert!(error.to_string().starts_with("what rank 0 told of its door "), "{error}");
        }
    }
}
