//! Groups of some of a group's ranks.

use std::sync::Arc;

use consort_sys::dtype::Element;

use super::{Group, Member, Rank, Shared};
use crate::call::{Call, Outputs, Purpose};
use crate::engine::Place;
use crate::error::{Error, Result};
use crate::neighbourhood::Neighbourhood;
use crate::symm::Commons;

impl Group {
    /// Parts the group: ranks that give the same colour form a new group, in the order of their
    /// keys, and of their ranks where keys are equal. A rank that gives none is in no new group.
    /// Every rank of this group has to call it.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let alone = group.split(Some(7), 0)?.expect("a colour was given");
    /// assert_eq!(alone.world(), 1);
    /// assert!(group.split(None, 0)?.is_none());
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a rank has no memory left for its part: [`Error::Memory`] on that one,
    /// [`Error::PeerUnable`] on all others. No new group is made then, and this one goes on.
    /// Otherwise as any [`call`](Self::call).
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Self>> {
        let Some(neighbourhood) = &self.shared.job.neighbourhood else {
            return colour
                .map(|_| self.fake_part(&(0..self.world()).collect::<Vec<_>>()))
                .transpose();
        };
        let (place, trouble) = match colour.map(|_| neighbourhood.take_place(self.world())) {
            Some(Err(error)) => (None, Some(error)),
            place => (place.and_then(Result::ok), None),
        };
        let mine = Card {
            colour: match &trouble {
                None => colour.map_or(NO_COLOUR, i64::from),
                Some(_) => NO_PLACE,
            },
            key,
            place: place.as_ref().map_or([0; 3], Place::offsets),
        };
        let (number, cards) = self.show_cards(&mine)?;
        if let Some(poor) = cards.iter().position(|card| card.colour == NO_PLACE) {
            return Err(self.hear_why_not(poor as u32, trouble)?);
        }
        let (Some(colour), Some(place)) = (colour, place) else { return Ok(None) };
        let name = format!("{}/{colour}#{number}", self.name());
        self.part(neighbourhood, name, colour, place, &cards).map(Some)
    }

    /// A new group of these ranks of this one, in this order. Every rank of this group has to call
    /// it, with the same list; those that are not on it get `None`.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert_eq!(group.new_group(&[0])?.expect("rank 0 is on the list").world(), 1);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a rank is on the list twice or does not exist; otherwise as any call.
    pub fn new_group(&self, ranks: &[u32]) -> Result<Option<Self>> {
        let mut seen = vec![false; self.world()];
        for &rank in ranks {
            let Some(seen) = seen.get_mut(rank as usize) else {
                let what = format!("there is no rank {rank} in a group of {}", self.world());
                return Err(Error::Argument(what));
            };
            if std::mem::replace(seen, true) {
                return Err(Error::Argument(format!("rank {rank} is on the list twice")));
            }
        }
        let place = ranks.iter().position(|&rank| rank == self.rank().get());
        if self.shared.job.neighbourhood.is_none() {
            let ranks: Vec<usize> = ranks.iter().map(|&rank| rank as usize).collect();
            return place.map(|_| self.fake_part(&ranks)).transpose();
        }
        self.split(place.map(|_| 0), place.unwrap_or(0) as i64)
    }

    /// Shows every rank's card to every rank, in a call of which it says which one it was.
    fn show_cards(&self, mine: &Card) -> Result<(u64, Vec<Card>)> {
        let mut words = vec![0; CARD * self.world()];
        let number = self.gather_for(Purpose::Split, &mine.pack(), &mut words)?;
        Ok((number, words.chunks_exact(CARD).filter_map(Card::unpack).collect()))
    }

    /// Gathers for a purpose that is not the program's own.
    pub(crate) fn gather_for<T: Element>(
        &self,
        purpose: Purpose,
        mine: &[T],
        all: &mut [T],
    ) -> Result<u64> {
        let (dtype, input) = (T::DTYPE, T::source(mine));
        let outputs = Outputs::Equal(T::target(all));
        self.call_for(purpose, &Call::AllGather { dtype, input, outputs })
    }

    /// The new group of those who gave the same colour.
    fn part(
        &self,
        neighbourhood: &Neighbourhood,
        name: String,
        colour: u32,
        mine: Place,
        cards: &[Card],
    ) -> Result<Self> {
        let is_chosen = |&rank: &usize| cards[rank].colour == i64::from(colour);
        let mut chosen: Vec<usize> = (0..self.world()).filter(is_chosen).collect();
        chosen.sort_by_key(|&rank| cards[rank].key);
        let places: Vec<[u64; 3]> = chosen.iter().map(|&rank| cards[rank].place).collect();
        let world_ranks: Vec<u32> =
            chosen.iter().map(|&rank| self.shared.world_ranks[rank]).collect();
        let lane = neighbourhood.lane(&name, &world_ranks, mine, &places)?;
        let members = (0..)
            .zip(&chosen)
            .map(|(rank, &old)| Member { rank: Rank(rank), ..self.members()[old].clone() })
            .collect();
        let rank = chosen.iter().position(|&rank| rank == self.rank().index());
        let shared = Shared {
            name,
            rank: Rank(rank.expect("this rank gave its own colour") as u32),
            members,
            world_ranks,
            commons: Some(Arc::new(Commons::new(lane.lookout()))),
            backend: Some(self.shared.job.backend(lane)),
            job: self.shared.job.clone(),
        };
        Ok(Self { shared: Arc::new(shared), timeout: self.timeout })
    }

    /// Lets the first rank that has no memory for a new group tell the others why. What this one's
    /// own trouble is it knows.
    fn hear_why_not(&self, poor: u32, trouble: Option<Error>) -> Result<Error> {
        let mut words = vec![0; REASON];
        if poor == self.rank().get()
            && let Some(trouble) = &trouble
        {
            words.iter_mut().zip(trouble.to_string().bytes()).for_each(|(to, from)| *to = from);
        }
        let (dtype, buffer) = (u8::DTYPE, u8::target(&mut words));
        self.call_for(Purpose::Split, &Call::Broadcast { dtype, root: Rank(poor), buffer })?;
        let reason = String::from_utf8_lossy(&words).trim_end_matches('\0').to_owned();
        let group = self.name().to_owned();
        let unable = || Error::PeerUnable { group, rank: poor, call: "split", reason };
        Ok(trouble.unwrap_or_else(unable))
    }
}

/// What a rank tells the others of its part in a new group.
struct Card {
    colour: i64,
    key: i64,
    /// Where it is in the rank's memory.
    place: [u64; 3],
}

impl Card {
    fn pack(&self) -> [i64; CARD] {
        let [board, ground, post] = self.place.map(|offset| offset as i64);
        [self.colour, self.key, board, ground, post]
    }

    /// `None` if it is too short.
    fn unpack(words: &[i64]) -> Option<Self> {
        let &[colour, key, ref place @ ..] = words else { return None };
        let place = <[i64; 3]>::try_from(place).ok()?.map(|offset| offset as u64);
        Some(Self { colour, key, place })
    }
}

/// So many words fit into a line of the board.
const CARD: usize = 5;
/// The colour of a rank that is to be in no new group.
const NO_COLOUR: i64 = -1;
/// What stands in the place of a colour if there is no memory for a place.
const NO_PLACE: i64 = -2;
/// So many bytes of a reason are told.
const REASON: usize = 512;
