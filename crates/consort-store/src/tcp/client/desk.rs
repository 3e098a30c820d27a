//! Where answers are left for those who wait for them, and who does which work.

use crate::proto::{Answer, House, Word};
use crate::request::Reply;

/// What the threads on one connection know of each other.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// The calls under way, each with its answer once that has come. They are few.
    places: Vec<(u64, Option<Reply>)>,
    /// The calls that were given up and whose answers have yet to come.
    abandoned: Vec<u64>,
    taken: Roles,
    /// Whether there are bytes that the connection would not take.
    pub(super) stuck: bool,
    /// Whether a thread looks after what was abandoned.
    pub(super) draining: bool,
    pub(super) broken: Option<Broken>,
    /// How the store stands, as it said last.
    pub(super) house: Option<House>,
}

/// The work on a connection, each kind of which one thread does at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Roles {
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// Why a connection is of no more use.
#[derive(Clone, Debug)]
pub(super) struct Broken(pub(super) String);

impl Desk {
    /// Makes a place for a new call's answer.
    pub(super) fn open(&mut self, call: u64) {
        self.places.push((call, None));
    }

    /// Takes a call's answer, if it has come.
    pub(super) fn answer(&mut self, call: u64) -> Option<Reply> {
        self.place(call).and_then(Option::take)
    }

    /// Ends a call, and gives its answer if that came at the last moment.
    pub(super) fn close(&mut self, call: u64) -> Option<Reply> {
        let late = self.answer(call);
        self.places.retain(|(other, _)| *other != call);
        late
    }

    /// Remembers that a call's answer comes when nobody waits for it any more.
    pub(super) fn abandon(&mut self, call: u64) {
        self.abandoned.push(call);
    }

    /// Whether nothing is left of calls that were given up, neither to write nor to read.
    pub(super) fn is_drained(&self) -> bool {
        self.abandoned.is_empty() && !self.stuck
    }

    /// Puts answers in their places, or away if nobody waits any more.
    pub(super) fn deliver(&mut self, words: Vec<Word>) {
        for word in words {
            match word {
                Word::Answer(Answer { call, reply }) => match self.place(call) {
                    Some(place) => *place = Some(reply),
                    None => self.abandoned.retain(|other| *other != call),
                },
                Word::House(house) => self.hear(house),
                Word::Note(_) => {}
            }
        }
    }

    /// Whether there is a store that takes over if this one is lost.
    pub(super) fn has_standby(&self) -> bool {
        self.house.as_ref().is_some_and(|house| house.standby.is_some())
    }

    /// A store that does not serve any more is of no more use than a connection that is gone.
    fn hear(&mut self, house: House) {
        if !house.aside.is_empty() {
            self.broken.get_or_insert_with(|| Broken(house.aside.clone()));
        }
        self.house = Some(house);
    }

    /// Whether there are others to be woken when a thread has done its turn.
    pub(super) fn has_company(&self) -> bool {
        self.places.len() > 1 || self.draining
    }

    /// Takes the roles that are needed and that nobody has, if there are any.
    pub(super) fn claim(&mut self) -> Option<Roles> {
        let mine = Roles { reads: !self.taken.reads, writes: self.stuck && !self.taken.writes };
        self.taken.reads |= mine.reads;
        self.taken.writes |= mine.writes;
        (mine.reads || mine.writes).then_some(mine)
    }

    /// Gives roles back.
    pub(super) fn release(&mut self, mine: Roles) {
        self.taken.reads &= !mine.reads;
        self.taken.writes &= !mine.writes;
    }

    fn place(&mut self, call: u64) -> Option<&mut Option<Reply>> {
        self.places.iter_mut().find(|(other, _)| *other == call).map(|(_, answer)| answer)
    }
}
