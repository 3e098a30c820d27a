//! Two stores that hold the same: the rules by which one follows the other and takes its place.
//! Pure: no socket, no thread; time comes in as an argument. The [README](mirror/README.md) has
//! the scenarios, and what is promised in each.
//!
//! ```text
//!  clients ──▶ first store ── copy, then entries ──▶ second store
//!                   ▲                                     │
//!                   └────────── have: so far ─────────────┘
//! ```
//!
//! The *first* store serves. What happens to its table it writes down as numbered [`Entry`]s for the
//! *second*, which does the same to its own. Once the two are *paired* the first answers a call only
//! when the second has said that it has all entries up to then; also a call that reads, because a
//! first store that has been replaced without knowing it must not answer at all.
//!
//! - The second takes over when the first's connection was closed from the other side, or nothing
//!   has come from it for [`Times::takeover`]. Then it serves, in the next epoch.
//! - The first goes on alone only if it *knows* that the second has ended without having taken over:
//!   the connection was closed from the other side, and less than [`Times::lease`] before that the
//!   second still heard from the first. Silence is no proof: a second store out of reach may have
//!   taken over. The first then answers nobody, and sends its clients to look for the second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::machine::{Answers, Ticket};
use crate::request::{Reply, bounded_list};

/// What the first store says to the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A part of the table, encoded.
    Part(ByteBuf),
    /// An answer that its client may not have yet.
    Receipt {
        /// Whose.
        client: u64,
        /// To which call.
        call: u64,
        /// The answer.
        reply: Reply,
    },
    /// A client with receipts but without a connection.
    Absent {
        /// Which.
        client: u64,
    },
    /// That was all; entries follow.
    Whole {
        /// The epoch that the first store serves in.
        epoch: u64,
        /// The number of the last entry that is contained.
        index: u64,
    },
    /// Something that happened.
    Entry {
        /// Its number.
        index: u64,
        /// What it was.
        entry: Entry,
    },
}

/// Something that happened to the first store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A call changed the table.
    Change {
        /// Whose.
        client: u64,
        /// Which.
        call: u64,
        /// The request, encoded.
        request: ByteBuf,
    },
    /// A client needs no more receipts of these calls.
    Settled {
        /// Which client.
        client: u64,
        /// Which calls.
        #[serde(deserialize_with = "bounded_list")]
        calls: Vec<u64>,
    },
    /// A client has connected.
    Here {
        /// Which.
        client: u64,
        /// Its calls without an answer.
        #[serde(deserialize_with = "bounded_list")]
        open: Vec<u64>,
    },
    /// A client's connection is gone.
    Gone {
        /// Which.
        client: u64,
    },
    /// From here on the first store answers nothing that the second does not have.
    Paired {
        /// The pair's epoch.
        epoch: u64,
    },
    /// A sign of life, and a number to wait for.
    Mark,
}

/// How long the two bear with each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The first gives a sign of life so often.
    pub(crate) beat: Duration,
    /// So long after it heard from the first, the second cannot have taken over.
    pub(crate) lease: Duration,
    /// The second takes over after so much silence.
    pub(crate) takeover: Duration,
}

impl Times {
    /// For stores of a job in which a host may be silent for this long. A takeover has to be over
    /// before that, or the job would be given up meanwhile.
    pub(crate) fn within(silence: Duration) -> Self {
        let takeover = (silence / 3).clamp(SHORTEST, LONGEST);
        Self { beat: takeover / 8, lease: takeover / 2, takeover }
    }
}

/// The first store's side.
#[derive(Debug)]
pub(crate) struct First {
    epoch: u64,
    /// The number of the last entry.
    index: u64,
    second: Second,
    /// Answers with the entry that the second must have before they go out.
    held: VecDeque<(u64, (Ticket, Reply))>,
    /// Bytes of these answers.
    weight: usize,
    times: Times,
}

/// What the first knows of the second.
#[derive(Debug)]
enum Second {
    None,
    /// A copy is under way; nothing depends on it yet.
    Copying {
        whole: u64,
        marks: Marks,
    },
    Paired(Marks),
    /// It is out of reach, or it has taken over: nobody is answered, for ever.
    Doubtful,
}

/// When entries were sent, to know when the second heard from the first.
#[derive(Debug)]
struct Marks {
    sent: VecDeque<(u64, Instant)>,
    /// When the last of the entries was sent that the second is known to have.
    heard: Instant,
    last: Instant,
}

impl First {
    /// A store that serves alone.
    pub(crate) fn new(epoch: u64, index: u64, times: Times) -> Self {
        Self { epoch, index, second: Second::None, held: VecDeque::new(), weight: 0, times }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether a second store is to hear of what happens.
    pub(crate) fn is_mirrored(&self) -> bool {
        matches!(self.second, Second::Copying { .. } | Second::Paired(_))
    }

    /// Whether clients may rely on the second.
    pub(crate) fn is_paired(&self) -> bool {
        matches!(self.second, Second::Paired(_))
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        matches!(self.second, Second::Doubtful)
    }

    /// Whether another store may follow.
    pub(crate) fn wants_second(&self) -> bool {
        matches!(self.second, Second::None)
    }

    /// A second store gets a copy: what comes after the notes that make it up.
    pub(crate) fn copied(&mut self, now: Instant) -> Note {
        let marks = Marks { sent: VecDeque::new(), heard: now, last: now };
        self.second = Second::Copying { whole: self.index, marks };
        Note::Whole { epoch: self.epoch, index: self.index }
    }

    /// Numbers an entry that goes to the second.
    pub(crate) fn number(&mut self, entry: Entry, now: Instant) -> Note {
        self.index = self.index.wrapping_add(1);
        if let Second::Copying { marks, .. } | Second::Paired(marks) = &mut self.second {
            marks.sent.push_back((self.index, now));
            marks.last = now;
        }
        Note::Entry { index: self.index, entry }
    }

    /// Holds answers back until the second has what has happened so far. Those that depend on
    /// nobody stay.
    pub(crate) fn hold(&mut self, answers: &mut Answers) {
        if self.is_paired() {
            self.weight += answers.iter().map(|(_, reply)| reply.weight()).sum::<usize>();
            self.held.extend(answers.drain(..).map(|answer| (self.index, answer)));
        }
    }

    /// The second has all entries up to this one: gives the answers that may go out now, and the
    /// entry with which the two become a pair, if this is when they do.
    pub(crate) fn have(&mut self, index: u64, released: &mut Answers) -> Option<Entry> {
        let index = index.min(self.index);
        let (Second::Copying { marks, .. } | Second::Paired(marks)) = &mut self.second else {
            return None;
        };
        while let Some((_, sent)) = marks.sent.pop_front_if(|(number, _)| *number <= index) {
            marks.heard = sent;
        }
        while let Some((_, answer)) = self.held.pop_front_if(|(number, _)| *number <= index) {
            self.weight -= answer.1.weight();
            released.push(answer);
        }
        match std::mem::replace(&mut self.second, Second::None) {
            Second::Copying { whole, marks } if index >= whole => {
                self.second = Second::Paired(marks);
                self.epoch = self.epoch.saturating_add(1);
                Some(Entry::Paired { epoch: self.epoch })
            }
            other => {
                self.second = other;
                None
            }
        }
    }

    /// The second's connection is gone: `closed` if from the other side. Gives all answers that were
    /// held back if the first may go on alone.
    pub(crate) fn second_lost(&mut self, closed: bool, now: Instant, released: &mut Answers) {
        let marks = match &self.second {
            Second::Paired(marks) => marks,
            Second::Copying { .. } => {
                self.second = Second::None;
                return;
            }
            Second::None | Second::Doubtful => return,
        };
        if !closed || now.saturating_duration_since(marks.heard) >= self.times.lease {
            self.depose();
            return;
        }
        self.second = Second::None;
        self.epoch = self.epoch.saturating_add(1);
        self.weight = 0;
        released.extend(self.held.drain(..).map(|(_, answer)| answer));
    }

    /// The second may serve in a later epoch, or does: nobody is answered here any more.
    pub(crate) fn depose(&mut self) {
        self.second = Second::Doubtful;
        self.held.clear();
        self.weight = 0;
    }

    /// Bytes of answers that are held back.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether it is time for a sign of life.
    pub(crate) fn beat_is_due(&self, now: Instant) -> bool {
        self.next_beat().is_some_and(|due| due <= now)
    }

    /// When the next sign of life is due.
    pub(crate) fn next_beat(&self) -> Option<Instant> {
        match &self.second {
            Second::Copying { marks, .. } | Second::Paired(marks) => {
                Some(marks.last + self.times.beat)
            }
            Second::None | Second::Doubtful => None,
        }
    }

    /// Whether the second has been out of reach for so long that it may have taken over.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.stale_at().is_some_and(|moment| moment <= now)
    }

    /// When the second may take over if it hears nothing more.
    pub(crate) fn stale_at(&self) -> Option<Instant> {
        match &self.second {
            Second::Paired(marks) => Some(marks.heard + self.times.takeover),
            _ => None,
        }
    }
}

/// The second store's side.
#[derive(Debug)]
pub(crate) struct Follower {
    epoch: u64,
    /// The last entry that it has; none while the copy is not whole.
    index: Option<u64>,
    paired: bool,
    /// When it last heard from the first.
    heard: Instant,
    times: Times,
}

impl Follower {
    pub(crate) fn new(now: Instant, times: Times) -> Self {
        Self { epoch: 0, index: None, paired: false, heard: now, times }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it has everything that any client was answered.
    pub(crate) fn is_paired(&self) -> bool {
        self.paired
    }

    /// Notices something of the first, and says what it is.
    ///
    /// # Errors
    /// When it is out of order.
    pub(crate) fn hear(&mut self, note: Note, now: Instant) -> Result<Heard, String> {
        self.heard = now;
        match (note, self.index) {
            (Note::Whole { epoch, index }, None) => {
                (self.epoch, self.index) = (epoch, Some(index));
                Ok(Heard::Whole)
            }
            (Note::Entry { index, entry }, Some(last)) if index == last.wrapping_add(1) => {
                self.index = Some(index);
                if let Entry::Paired { epoch } = entry {
                    (self.epoch, self.paired) = (epoch, true);
                }
                Ok(Heard::Entry(entry))
            }
            (part @ (Note::Part(_) | Note::Receipt { .. } | Note::Absent { .. }), None) => {
                Ok(Heard::Part(part))
            }
            (_, last) => Err(format!("the first store's entries are out of order after {last:?}")),
        }
    }

    /// What to tell the first: the last entry that this store has.
    pub(crate) fn has(&self) -> Option<u64> {
        self.index
    }

    /// Whether the first has been silent for so long that this store takes over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due_at().is_some_and(|due| due <= now)
    }

    /// When this store takes over if it hears nothing more.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.paired.then(|| self.heard + self.times.takeover)
    }

    /// This store as one that serves.
    pub(crate) fn promoted(&self) -> First {
        First::new(self.epoch.saturating_add(1), self.index.unwrap_or(0), self.times)
    }
}

/// What a note was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A part of the copy.
    Part(Note),
    /// The copy is whole.
    Whole,
    /// Something that happened.
    Entry(Entry),
}

const SHORTEST: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
