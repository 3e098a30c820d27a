//! What comes from one rank.
//!
//! A ring, or what is there instead, gives its messages in the order in which they were sent;
//! threads want them by their tags. So a message at the front that has another tag than the one
//! wanted is put away, and the thread that wants it finds it there. Which thread puts it away makes
//! no difference: whoever looks goes on with it.
//!
//! So much is put away of a rank's messages and no more: what it sends after that stays in the ring,
//! and it has to wait, until somebody receives what is there.
//!
//! The [courier](super::courier) waits for messages with several tags at once. Those are bespoken:
//! others leave them to it.

mod look;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use consort_sys::arena::{ArenaError, Shortage};
use consort_sys::memory::Memory;
use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::{Source, Target};

pub(super) use self::look::{Found, Looked, Wanted};
use super::News;
use super::ends::{Broken, Inlet};
use super::exchange::Arrival;

/// What has come from another rank, or from this one.
#[derive(Debug)]
pub(super) struct Inbox {
    from: usize,
    /// `None` for this rank's own: what it sends to itself is put away at once.
    inlet: Option<Inlet>,
    front: Front,
    /// Messages that came before somebody wanted them: by their tags, and the oldest first.
    early: BTreeMap<u32, VecDeque<Parcel>>,
    /// How many bytes they take.
    kept: usize,
    /// How many bytes may be put away of what comes from another rank.
    most: usize,
    /// Whether there was no room to put the message at the front away.
    full: bool,
    /// How many messages the courier waits for, by their tags. Nobody else takes those.
    bespoken: BTreeMap<u32, usize>,
    /// Whether threads that found nothing should look again.
    news: bool,
}

/// What happens to the message at the front of the ring.
#[derive(Debug)]
enum Front {
    /// Nothing so far.
    Untouched,
    /// One thread takes it, into its own memory or to throw it away; the others wait for that.
    Taken,
    /// It is being put away, by whoever looks.
    PutAway(Parcel),
}

/// A message in memory of this rank's own.
#[derive(Debug)]
struct Parcel {
    envelope: Envelope,
    data: Vec<u8>,
}

impl Inbox {
    /// How many bytes are put away of each rank's messages.
    pub(super) const MOST: usize = 256 << 20;

    pub(super) fn new(from: usize, inlet: Option<Inlet>, most: usize) -> Self {
        let (early, bespoken, front) = (BTreeMap::new(), BTreeMap::new(), Front::Untouched);
        let (kept, full, news) = (0, false, false);
        Self { from, inlet, front, early, kept, most, full, bespoken, news }
    }

    /// Whether messages may be fetched from where their sender has them.
    pub(super) fn may_fetch(&self) -> bool {
        self.inlet.as_ref().is_some_and(Inlet::may_fetch)
    }

    /// Whether something may yet come of a rank that has left.
    pub(super) fn may_go_on(&mut self) -> bool {
        self.inlet.as_mut().is_some_and(Inlet::may_go_on)
    }

    /// Receives what can be received now of the message that a thread wants. Those that the courier
    /// was asked for with the same tag come first.
    pub(super) fn go_on(&mut self, arrival: &mut Arrival<'_>) -> Result<Progress, Broken> {
        if arrival.has_begun() {
            return self.take_front(arrival);
        }
        if self.bespoken.contains_key(&arrival.tag()) {
            arrival.hold_up();
            return Ok(Progress::Stuck);
        }
        match self.look_for(Wanted::Tag(arrival.tag()))? {
            Looked::Found(found) => self.take(found, arrival),
            Looked::NotYet(progress) => Ok(progress),
            Looked::Behind(progress) => {
                arrival.hold_up();
                Ok(progress)
            }
        }
    }

    /// Looks for a message that is wanted. What is before it at the front of the ring is put away,
    /// unless somebody else takes it from there.
    pub(super) fn look_for(&mut self, wanted: Wanted) -> Result<Looked, Broken> {
        let mut progress = Progress::Stuck;
        loop {
            if let Some(tag) = self.find_early(wanted) {
                return Ok(Looked::Found(Found::Early(tag)));
            }
            let Some(inlet) = &mut self.inlet else { return Ok(Looked::NotYet(progress)) };
            match &mut self.front {
                Front::Taken => return Ok(Looked::Behind(progress)),
                Front::Untouched => {
                    let Some(envelope) = inlet.front()? else {
                        return Ok(Looked::NotYet(progress));
                    };
                    let bespoken = self.bespoken.contains_key(&envelope.tag);
                    if wanted.is(envelope.tag, bespoken) {
                        return Ok(Looked::Found(Found::Front(envelope)));
                    }
                    if bespoken {
                        return Ok(Looked::Behind(progress));
                    }
                    if envelope.bytes.saturating_add(PARCEL) > self.most - self.kept {
                        self.wait_for_room();
                        return Ok(Looked::NotYet(progress));
                    }
                    self.front = Front::PutAway(Parcel::empty(envelope)?);
                }
                Front::PutAway(parcel) => {
                    match inlet.take(Target::from(&mut parcel.data[..]))? {
                        Progress::Done => self.keep_front(),
                        Progress::Moved => return Ok(Looked::NotYet(Progress::Moved)),
                        Progress::Stuck => return Ok(Looked::NotYet(progress)),
                    }
                    progress = Progress::Moved;
                }
            }
        }
    }

    /// Receives what can be received now of a message that was found.
    pub(super) fn take(
        &mut self,
        found: Found,
        arrival: &mut Arrival<'_>,
    ) -> Result<Progress, Broken> {
        match found {
            Found::Early(tag) => {
                let parcel = self.take_early(tag);
                arrival.begin(self.from, parcel.envelope);
                if let Some(target) = arrival.target() {
                    target.copy_from((&parcel.data[..]).into());
                }
                arrival.end();
                Ok(Progress::Done)
            }
            Found::Front(envelope) => {
                arrival.begin(self.from, envelope);
                self.front = Front::Taken;
                self.take_front(arrival)
            }
        }
    }

    /// Takes notice that the courier waits for a message with a tag.
    pub(super) fn bespeak(&mut self, tag: u32) {
        *self.bespoken.entry(tag).or_default() += 1;
    }

    /// Takes notice that the courier waits for one message less with a tag.
    pub(super) fn release(&mut self, tag: u32) {
        if let Some(count) = self.bespoken.get_mut(&tag) {
            *count -= 1;
            if *count == 0 {
                self.bespoken.remove(&tag);
            }
        }
    }

    /// Puts away what this rank sends to itself.
    pub(super) fn put(&mut self, envelope: Envelope, data: Source<'_>) -> Result<(), Broken> {
        let mut parcel = Parcel::empty(envelope)?;
        Target::from(&mut parcel.data[..]).copy_from(data);
        self.keep(parcel);
        Ok(())
    }

    /// Goes on with a message that has begun to arrive where it was wanted, or to be refused.
    fn take_front(&mut self, arrival: &mut Arrival<'_>) -> Result<Progress, Broken> {
        let inlet = self.inlet.as_mut().expect("a message begins only in a ring");
        let progress = match arrival.target() {
            Some(target) => inlet.take(target)?,
            None => inlet.skip()?,
        };
        if progress == Progress::Done {
            arrival.end();
            self.front = Front::Untouched;
            self.news = true;
        }
        Ok(progress)
    }

    /// The tag of a message that was put away and is wanted.
    fn find_early(&self, wanted: Wanted) -> Option<u32> {
        match wanted {
            Wanted::Tag(tag) => self.early.contains_key(&tag).then_some(tag),
            Wanted::Bespoken => {
                self.early.keys().find(|tag| self.bespoken.contains_key(tag)).copied()
            }
        }
    }

    fn take_early(&mut self, tag: u32) -> Parcel {
        let parcels = self.early.get_mut(&tag).expect("a message with this tag was found");
        let parcel = parcels.pop_front().expect("nobody keeps an empty list");
        if parcels.is_empty() {
            self.early.remove(&tag);
        }
        self.kept -= parcel.size();
        // There may be room now for what others wait behind.
        self.news |= std::mem::take(&mut self.full);
        parcel
    }

    #[cold]
    fn wait_for_room(&mut self) {
        if !std::mem::replace(&mut self.full, true) {
            let Self { from, kept, .. } = self;
            tracing::warn!(
                "nobody has received {kept} bytes that rank {from} has sent, so what it sends now is \
                 left where it is"
            );
        }
    }

    fn keep_front(&mut self) {
        if let Front::PutAway(parcel) = std::mem::replace(&mut self.front, Front::Untouched) {
            self.keep(parcel);
        }
    }

    fn keep(&mut self, parcel: Parcel) {
        self.kept += parcel.size();
        self.early.entry(parcel.envelope.tag).or_default().push_back(parcel);
        self.news = true;
    }
}

impl News for Inbox {
    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}

impl Parcel {
    fn empty(envelope: Envelope) -> Result<Self, ArenaError> {
        let (asked, mut data) = (envelope.bytes, Vec::new());
        // The system promises more than there is, and kills who uses it.
        let is_too_much = asked >= LOOK_FROM && asked as u64 > Memory::here().usable();
        if is_too_much || data.try_reserve_exact(asked).is_err() {
            let shortage = Shortage { asked, memory: Memory::here(), refusal: None };
            return Err(ArenaError::NoMemory(Box::new(shortage)));
        }
        data.resize(asked, 0);
        Ok(Self { envelope, data })
    }

    fn size(&self) -> usize {
        self.data.len() + PARCEL
    }
}

/// What a message takes beside its data.
const PARCEL: usize = 64;
/// Looking how much memory there is takes longer than filling less than this.
const LOOK_FROM: usize = 1 << 20;
