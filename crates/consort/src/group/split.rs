//! Groups of some of a group's ranks.

use std::sync::Arc;

use consort_sys::dtype::Element;

use super::{Carrier, Group, Member, Rank};
use crate::call::{Call, Description, Outputs, Purpose};
use crate::engine::Place;
use crate::error::{Error, Result};
use crate::neighbourhood::Places;

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
        if self.shared.job.neighbourhood.is_none() {
            let all = || (0..self.world()).collect::<Vec<_>>();
            return colour.map(|_| self.fake_part(&all())).transpose();
        }
        self.part_with(colour, key, None)
    }

    /// Parts the group, because of a list that was given to every rank or because each has given a
    /// colour.
    fn part_with(
        &self,
        colour: Option<u32>,
        key: i64,
        list: Option<&[u32]>,
    ) -> Result<Option<Self>> {
        let neighbourhood = self.shared.job.neighbourhood()?;
        let (place, trouble) = match colour.map(|_| neighbourhood.take_place(self.world())) {
            Some(Err(error)) => (None, Some(error)),
            place => (place.and_then(Result::ok), None),
        };
        let mine = Card {
            colour: match &trouble {
                None => colour.map_or(Colour::None, Colour::Given),
                Some(_) => Colour::NoPlace,
            },
            list: list.map_or(0, digest_of),
            key,
            place: place.as_ref().map_or([0; 3], Place::offsets),
        };
        let (number, cards) = self.show_cards(&mine)?;
        if let Some(other) = cards.iter().position(|card| card.list != cards[0].list) {
            return Err(self.show_lists(list, [0, other as u32])?);
        }
        if let Some(poor) = cards.iter().position(|card| card.colour == Colour::NoPlace) {
            return Err(self.hear_why_not(poor as u32, trouble)?);
        }
        let (Some(colour), Some(place)) = (colour, place) else { return Ok(None) };
        let name = format!("{}/{colour}#{number}", self.name());
        self.part(name, colour, place, &cards).map(Some)
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
    /// When a rank is on the list twice or does not exist. When ranks give different lists: on all of
    /// them, and this group goes on. Otherwise as [`split`](Self::split).
    pub fn new_group(&self, ranks: &[u32]) -> Result<Option<Self>> {
        self.check_list(ranks)?;
        let place = ranks.iter().position(|&rank| rank == self.rank().get());
        if self.shared.job.neighbourhood.is_none() {
            let ranks: Vec<usize> = ranks.iter().map(|&rank| rank as usize).collect();
            return place.map(|_| self.fake_part(&ranks)).transpose();
        }
        self.part_with(place.map(|_| 0), place.unwrap_or(0) as i64, Some(ranks))
    }

    /// Makes sure that a list has ranks of this group, each once.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check_list(&self, ranks: &[u32]) -> Result<()> {
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
        Ok(())
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
    fn part(&self, name: String, colour: u32, mine: Place, cards: &[Card]) -> Result<Self> {
        let is_chosen = |&rank: &usize| cards[rank].colour == Colour::Given(colour);
        let mut chosen: Vec<usize> = (0..self.world()).filter(is_chosen).collect();
        chosen.sort_by_key(|&rank| cards[rank].key);
        let places: Vec<[u64; 3]> = chosen.iter().map(|&rank| cards[rank].place).collect();
        self.of_some(name, &chosen, mine, &places, self.shared.carrier).map(Self::recorded)
    }

    /// A new group of these ranks of this one, in this order, who have set these places aside. This one
    /// is among them. Its data is carried so.
    pub(super) fn of_some(
        &self,
        name: String,
        chosen: &[usize],
        mine: Place,
        places: &[[u64; 3]],
        carrier: Carrier,
    ) -> Result<Self> {
        let host = &self.members()[self.rank().index()].host;
        let is_here = |(rank, _): &(&usize, _)| self.members()[**rank].host == *host;
        let here = chosen.iter().zip(places).filter(is_here);
        let offsets = here.map(|(_, &place)| place).collect();
        let world_ranks = chosen.iter().map(|&rank| self.shared.world_ranks[rank]).collect();
        let members = (0..)
            .zip(chosen)
            .map(|(rank, &old)| Member { rank: Rank(rank), ..self.members()[old].clone() })
            .collect();
        let rank = chosen.iter().position(|&rank| rank == self.rank().index());
        let rank = Rank(rank.expect("this rank is one of them") as u32);
        let places = Some(Places { mine, offsets });
        let job = &self.shared.job;
        let shared = job.form(name, rank, members, world_ranks, places, (carrier, self.timeout))?;
        Ok(Self { shared: Arc::new(shared), timeout: self.timeout })
    }

    /// Lets the first rank that has no memory for a new group tell the others why. What this one's
    /// own trouble is it knows.
    fn hear_why_not(&self, poor: u32, trouble: Option<Error>) -> Result<Error> {
        let mine = trouble.as_ref().map(Error::to_string).unwrap_or_default();
        let reason = self.hear(poor, &mine)?;
        let group = self.name().to_owned();
        let unable = || Error::PeerUnable { group, rank: poor, call: "split", reason };
        Ok(trouble.unwrap_or_else(unable))
    }

    /// Lets two ranks that were given different lists tell the others theirs.
    fn show_lists(&self, mine: Option<&[u32]>, ranks: [u32; 2]) -> Result<Error> {
        let mine = match mine {
            Some(list) => format!("asked for a new group of {list:?}"),
            None => "called split".to_owned(),
        };
        let [first, second] = ranks;
        let (one, other) = (self.hear(first, &mine)?, self.hear(second, &mine)?);
        Ok(Error::Argument(format!(
            "rank {first} {one}, but rank {second} {other}: every rank has to give the same list"
        )))
    }

    /// What a rank says, or its first bytes.
    fn hear(&self, rank: u32, mine: &str) -> Result<String> {
        let mut words = vec![0; REASON];
        words.iter_mut().zip(mine.bytes()).for_each(|(to, from)| *to = from);
        let (dtype, buffer) = (u8::DTYPE, u8::target(&mut words));
        self.call_for(Purpose::Split, &Call::Broadcast { dtype, root: Rank(rank), buffer })?;
        Ok(String::from_utf8_lossy(&words).trim_end_matches('\0').to_owned())
    }
}

/// What a rank tells the others of its part in a new group.
struct Card {
    colour: Colour,
    /// A digest of the list that it was given, if it was given one; otherwise 0.
    list: u32,
    key: i64,
    /// Where it is in the rank's memory.
    place: [u64; 3],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Given(u32),
    /// It is to be in no new group.
    None,
    /// There is no memory for its part.
    NoPlace,
}

impl Card {
    fn pack(&self) -> [i64; CARD] {
        let (kind, colour) = match self.colour {
            Colour::Given(colour) => (0, colour),
            Colour::None => (1, 0),
            Colour::NoPlace => (2, 0),
        };
        let first = u64::from(colour) | u64::from(self.list) << 32 | kind << 62;
        let [board, ground, post] = self.place.map(|offset| offset as i64);
        [first as i64, self.key, board, ground, post]
    }

    /// `None` if it is too short.
    fn unpack(words: &[i64]) -> Option<Self> {
        let &[first, key, ref place @ ..] = words else { return None };
        let first = first as u64;
        let colour = match first >> 62 {
            0 => Colour::Given(first as u32),
            1 => Colour::None,
            _ => Colour::NoPlace,
        };
        let place = <[i64; 3]>::try_from(place).ok()?.map(|offset| offset as u64);
        Some(Self { colour, list: (first >> 32) as u32 & LIST, key, place })
    }
}

/// A number that stands for a list, never 0.
fn digest_of(list: &[u32]) -> u32 {
    (Description::digest_of(list.iter().map(|&rank| rank as usize)) & LIST).max(1)
}

/// The bits of a list's digest that fit into a card.
const LIST: u32 = (1 << 30) - 1;
/// So many words fit into a line of the board.
const CARD: usize = 5;
/// So many bytes of a reason are told.
const REASON: usize = 512;
