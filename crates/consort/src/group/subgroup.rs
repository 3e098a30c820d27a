//! Groups of some of a group's ranks.

use std::sync::Arc;

use super::{Group, Member, Rank, Shared};
use crate::error::{Error, Result};
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
    /// As any call; see [`call`](Self::call).
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Self>> {
        let Some(neighbourhood) = &self.shared.job.neighbourhood else {
            return colour
                .map(|_| self.fake_part(&(0..self.world()).collect::<Vec<_>>()))
                .transpose();
        };
        let place = colour.map(|_| neighbourhood.take_place(self.world())).transpose()?;
        let [board, ground, post] = place.as_ref().map_or([0; 3], |place| place.offsets());
        let colour_word = colour.map_or(-1, i64::from);
        let mine = [colour_word, key, board as i64, ground as i64, post as i64];
        let mut cards = vec![0; mine.len() * self.world()];
        self.all_gather(&mine, &mut cards)?;
        let (Some(colour), Some(place)) = (colour, place) else { return Ok(None) };

        let cards: Vec<&[i64]> = cards.chunks(mine.len()).collect();
        let mut chosen: Vec<usize> =
            (0..self.world()).filter(|&rank| cards[rank][0] == colour_word).collect();
        chosen.sort_by_key(|&rank| cards[rank][1]);
        let offsets: Vec<[u64; 3]> =
            chosen.iter().map(|&rank| [2, 3, 4].map(|field| cards[rank][field] as u64)).collect();
        let world_ranks: Vec<u32> =
            chosen.iter().map(|&rank| self.shared.world_ranks[rank]).collect();
        let name = format!("{}/{colour}#{}", self.name(), self.calls());
        let lane = neighbourhood.lane(&name, &world_ranks, place, &offsets)?;
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
        Ok(Some(Self { shared: Arc::new(shared), timeout: self.timeout }))
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
}
