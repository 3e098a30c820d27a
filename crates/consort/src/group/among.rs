//! Groups that only their members ask for.
//!
//! Who is not in such a group does not hear of it, so its members cannot agree in a call of the group that
//! they are part of: they meet in the job's store, under the name that they give. Each shows a card there
//! and waits for those of the others. Whoever has seen all of them, or that they cannot come, settles
//! what becomes of it; of several the first, and the others accept that.
//!
//! ```text
//!  <name>/<rank>       its card: where its memory is, and which list it was given
//!  <name>/list/<hash>  a list that somebody was given, for those who were given another
//!  <name>/settled      what has become of it, for ever: a name is used once
//!  <name>/heard        how many members know that; the last of them clears the rest away
//! ```
//!
//! Memory that was shown may be used by the others, so it is let go of only when it is settled that it is
//! not. A rank that loses the store before that leaves it to them.

mod verdict;

use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError, Reply, Request, Store, Swap};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::verdict::Verdict;
use super::{Group, Presence};
use crate::engine::{Since, Waiting};
use crate::error::{Error, Result};
use crate::verdict::{decode, encode};

impl Group {
    /// A new group of these ranks of this one, in this order, which its members make by themselves: they
    /// give the same name and the same list, and nobody else calls it. It is no call of this group, so it
    /// does not matter what its ranks do otherwise, nor whether it has ended.
    ///
    /// The members meet in the job's [store](Self::store). When it returns, all have come; what keeps one
    /// of them from going on after that is found by the new group's calls. The group is called after this
    /// one and the name: `world/pipeline`.
    ///
    /// A name is used once in a group, by whichever ranks and with whatever success: the store remembers
    /// it. For another try, or another group, choose another name.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let pipeline = group.among("pipeline", &[0])?;
    /// assert_eq!((pipeline.name(), pipeline.world()), ("world/pipeline", 1));
    /// assert!(group.among("pipeline", &[0]).is_err());
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// None of them ends this group. All members get the same, those who come later, too.
    /// * [`Error::Argument`]: a rank is on the list twice or does not exist, this one is not on it, members
    ///   were given different lists, or the name was used before.
    /// * [`Error::PeerLost`], [`Error::Left`]: a member cannot come any more.
    /// * [`Error::Late`]: members that are alive have not come within this group's
    ///   [timeout](Self::timeout).
    /// * [`Error::Memory`] on a member that has none left for its part, [`Error::PeerUnable`] on the others.
    /// * [`Error::Store`]: the store is gone.
    pub fn among(&self, name: &str, ranks: &[u32]) -> Result<Self> {
        self.check_list(ranks)?;
        let me = self.rank().get();
        if !ranks.contains(&me) {
            let what =
                format!("rank {me} is not on the list {ranks:?}: only those on it call this");
            return Err(Error::Argument(what));
        }
        let chosen: Vec<usize> = ranks.iter().map(|&rank| rank as usize).collect();
        if self.shared.job.neighbourhood.is_none() {
            self.backend()?;
            return Ok(self.fake_part_named(name, &chosen));
        }
        self.check_can_wait("among")?;
        Gathering::new(self, name, ranks).form(&chosen).map(Self::recorded)
    }

    /// A group of the same ranks, in which they agree on what they do for this one, for a purpose. Its calls are not
    /// written down, and who waits for the others to come to it gives up when this group has ended.
    ///
    /// # Errors
    /// As [`among`](Self::among), with which it shares its names; and when this group has ended.
    pub(crate) fn beside(&self, name: &str, purpose: &'static str) -> Result<Self> {
        let ranks: Vec<u32> = (0..self.world() as u32).collect();
        let chosen: Vec<usize> = (0..self.world()).collect();
        self.check_can_wait(name)?;
        let purpose = Some(purpose);
        let gathering = Gathering { purpose, ..Gathering::new(self, name, &ranks) };
        gathering.form(&chosen)
    }
}

/// What a member shows the others.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    /// Stands for the list that it was given.
    list: ListHash,
    /// Where its memory for the new group is.
    place: [u64; 3],
}

type ListHash = [u8; 16];

/// The members of a new group, as they meet in the store.
struct Gathering<'a> {
    /// Whose ranks they are.
    group: &'a Group,
    store: &'a dyn Store,
    name: &'a str,
    list: &'a [u32],
    hash: ListHash,
    /// What it is for, if that is the group itself: it is given up when that has ended.
    purpose: Option<&'static str>,
    until: Deadline,
    began: Instant,
}

impl<'a> Gathering<'a> {
    fn new(group: &'a Group, name: &'a str, list: &'a [u32]) -> Self {
        let store = &*group.shared.job.registry;
        let (until, began) = (Deadline::after(group.timeout()), Instant::now());
        let hash = first_half(&encode(&list));
        Self { group, store, name, list, hash, purpose: None, until, began }
    }

    /// The new group, whose members these are.
    fn form(&self, members: &[usize]) -> Result<Group> {
        if let Some(settled) = self.settled()? {
            return Err(self.error(settled));
        }
        let place = match self.group.shared.job.neighbourhood()?.take_place(members.len()) {
            Ok(place) => place,
            Err(error) => {
                let (rank, reason) = (self.me(), error.to_string());
                // Otherwise the others would wait for this one, as they do if the store cannot be told.
                let _ = self.settle(Verdict::Unable { rank, reason });
                return Err(error);
            }
        };
        self.show_list()?;
        match self.agree(place.offsets()) {
            Ok(Some(Verdict::Formed { list, places })) if self.is_of(&list, &places, &place) => {
                let carrier = self.group.shared.carrier;
                self.group.of_some(self.group_name(), members, place, &places, carrier)
            }
            Ok(Some(settled)) => Err(self.error(settled)),
            Ok(None) => Err(self.under_way()),
            Err(error) => {
                // The others may count on it.
                place.abandon();
                Err(error)
            }
        }
    }

    /// Waits until it is settled what becomes of it, or settles it. `None` if this rank has come to it
    /// already, and its card there is of another call.
    fn agree(&self, place: [u64; 3]) -> Result<Option<Verdict>> {
        let card = encode(&Card { list: self.hash, place });
        if self.put(&self.card_of(self.me()), &card)?.is_some() {
            return Ok(None);
        }
        let settled = self.wait()?;
        self.clear(&settled);
        Ok(Some(settled))
    }

    fn wait(&self) -> Result<Verdict> {
        let mut since = Since::default();
        loop {
            if let Some(cards) = self.cards()?
                && let Some(verdict) = self.judge(&cards)?
            {
                return self.settle(verdict);
            }
            if let Some(settled) = self.settled()? {
                return Ok(settled);
            }
            if let Some(trouble) = self.look_round()? {
                return self.settle(trouble);
            }
            self.warn(&mut since)?;
        }
    }

    /// Everyone's, in the order of the list, once all have come.
    fn cards(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let keys: Vec<String> = self.list.iter().map(|&rank| self.card_of(rank)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let until = Deadline::after(LOOK).min(self.until);
        found(self.store.multi_get(&keys, until))
    }

    /// What is to become of it, of which these are the cards; `None` if that has just been settled.
    fn judge(&self, cards: &[Vec<u8>]) -> Result<Option<Verdict>> {
        let mut places = Vec::new();
        for (&rank, card) in self.list.iter().zip(cards) {
            let Card { list, place } = self.read(card)?;
            if list != self.hash {
                let Some(theirs) = self.get(&self.list_with(&list))? else { return Ok(None) };
                let (mine, theirs) = (self.list.to_vec(), self.read(&theirs)?);
                let [first, second] = [(self.me(), mine), (rank, theirs)];
                return Ok(Some(Verdict::Differs { first, second }));
            }
            places.push(place);
        }
        Ok(Some(Verdict::Formed { list: self.list.to_vec(), places }))
    }

    /// Whether a member cannot come any more, or it is too late.
    fn look_round(&self) -> Result<Option<Verdict>> {
        if self.purpose.is_some()
            && let Some(error) = self.group.error()
        {
            return Ok(Some(Verdict::Unable { rank: self.me(), reason: error.to_string() }));
        }
        for &rank in self.list.iter().filter(|&&rank| rank != self.me()) {
            match self.presence(rank)? {
                Presence::Here => {}
                Presence::Gone => return Ok(Some(self.lost(rank))),
                // If it had come, it may have got the group before it left this one.
                Presence::Left if self.is_missing(rank)? => {
                    return Ok(Some(Verdict::Left { rank, by: self.me() }));
                }
                Presence::Left => {}
            }
        }
        if !self.until.has_passed() {
            return Ok(None);
        }
        let missing = self.missing()?;
        Ok((!missing.is_empty()).then(|| self.late(missing)))
    }

    fn presence(&self, rank: u32) -> Result<Presence> {
        let presence = self.group.presence(rank)?;
        // One that has ended in good order may have said so only now.
        if presence == Presence::Gone { self.group.presence(rank) } else { Ok(presence) }
    }

    fn lost(&self, rank: u32) -> Verdict {
        let (by, waited) = (self.me(), self.began.elapsed());
        Verdict::Lost { rank, by, waited, seen: self.sight(&[rank]) }
    }

    fn late(&self, missing: Vec<u32>) -> Verdict {
        let (by, waited, seen) = (self.me(), self.began.elapsed(), self.sight(&missing));
        Verdict::Late { missing, by, waited, seen }
    }

    /// Says that this takes long, if it is time to.
    fn warn(&self, since: &mut Since) -> Result<()> {
        if let Some(lookout) = &self.group.shared.lookout
            && since.is_to_warn(lookout.warn_after())
        {
            let waiting = Waiting { call: self.call(), number: 0, waited: self.began.elapsed() };
            let missing: Vec<usize> = self.missing()?.iter().map(|&rank| rank as usize).collect();
            lookout.warn(&waiting, &missing);
        }
        Ok(())
    }

    /// Who has shown no card, in the order of ranks.
    fn missing(&self) -> Result<Vec<u32>> {
        let mut missing = Vec::new();
        for &rank in self.list {
            if self.is_missing(rank)? {
                missing.push(rank);
            }
        }
        missing.sort_unstable();
        Ok(missing)
    }

    /// Whether a member has certainly shown no card so far.
    fn is_missing(&self, rank: u32) -> Result<bool> {
        match self.store.get(&self.card_of(rank), Deadline::now()) {
            Ok(_) => Ok(false),
            Err(StoreError::Timeout { missing, .. }) => Ok(missing.count > 0),
            Err(error) => Err(error.into()),
        }
    }

    /// What has become of it, if that is settled.
    fn settled(&self) -> Result<Option<Verdict>> {
        self.get(&self.key(SETTLED))?.map(|settled| self.read(&settled)).transpose()
    }

    /// Settles what becomes of it, unless that is settled. What is settled then.
    fn settle(&self, verdict: Verdict) -> Result<Verdict> {
        match self.put(&self.key(SETTLED), &encode(&verdict))? {
            None => Ok(verdict),
            Some(settled) => self.read(&settled),
        }
    }

    /// Takes away what nobody needs any more. If that fails it is in nobody's way.
    fn clear(&self, settled: &Verdict) {
        let mut keys = vec![self.card_of(self.me()), self.list_with(&self.hash)];
        if let Verdict::Formed { list, .. } = settled
            && list == self.list
        {
            let heard = self.key("heard");
            if self.store.add(&heard, 1).ok() != i64::try_from(list.len()).ok() {
                return;
            }
            keys.extend(list.iter().map(|&rank| self.card_of(rank)).chain([heard]));
        }
        for key in keys {
            let _ = self.store.delete(&key);
        }
    }

    fn show_list(&self) -> Result<()> {
        let (key, value) = (self.list_with(&self.hash), encode(&self.list));
        self.store.call(&Request::Set { key: &key, value: &value }, Deadline::after(MOVING))?;
        Ok(())
    }

    /// Writes something unless there is something, and says what.
    fn put(&self, key: &str, new: &[u8]) -> Result<Option<Vec<u8>>> {
        let request = Request::CompareSet { key, expect: None, new };
        match self.store.call(&request, Deadline::after(MOVING))? {
            Reply::Swap(Swap::Differs(there)) => Ok(Some(there)),
            _ => Ok(None),
        }
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        found(self.store.get(key, Deadline::now()))
    }

    fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        let unreadable =
            |what| Error::Argument(format!("what was said of group {:?} {what}", self.name));
        decode(bytes).map_err(unreadable)
    }

    fn me(&self) -> u32 {
        self.group.rank().get()
    }

    fn card_of(&self, rank: u32) -> String {
        self.key(&rank.to_string())
    }

    fn list_with(&self, hash: &ListHash) -> String {
        self.key(&format!("list/{}", hex(hash)))
    }

    /// Names are of any length, and of any letters.
    fn key(&self, what: &str) -> String {
        let name = first_half(&encode(&(self.group.name(), self.name)));
        format!("among/{}/{what}", hex(&name))
    }
}

/// What a store had, if it had it in time.
fn found<T>(answer: Result<T, StoreError>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Timeout { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn first_half(bytes: &[u8]) -> ListHash {
    let hash = blake3::hash(bytes);
    let (half, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    *half
}

fn hex(hash: &ListHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

const SETTLED: &str = "settled";
/// How often somebody looks whether others have died.
const LOOK: Duration = Duration::from_millis(20);
/// How long a standby may take to be the store.
const MOVING: Duration = Duration::from_secs(15);
