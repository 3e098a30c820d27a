//! The reader's side.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rustix::fs::OFlags;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use thiserror::Error;

use super::entry::{self, Word};
use super::layout::{CALLS, GROUPS, Group, Layout, MAGIC, PAGE_WORDS, VERSION, group, head};
use super::layout::{Page, SITE_WORDS, SITES, text_in, text_of};
use super::times::Times;
use super::write::Recording;

/// A rank's recording at one moment. Times are nanoseconds since 1970, by the clock of the rank's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The rank in the world.
    pub rank: u32,
    /// How many ranks there are.
    pub world: u32,
    /// The round of the job.
    pub epoch: u64,
    /// Its process number, on its host.
    pub process: u32,
    /// The job's name.
    pub job: String,
    /// Whether it has left in good order.
    pub has_left: bool,
    /// Whether its process holds the recording, as far as that can be seen from here.
    pub is_alive: bool,
    /// From where in its program calls were made, if that was noted: file and line.
    pub sites: Vec<String>,
    /// Its groups, the first that it was in first.
    pub groups: Vec<GroupRecord>,
}

/// What a rank did in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// The group's name.
    pub name: String,
    /// The rank in the group.
    pub rank: u32,
    /// How many ranks the group has.
    pub world: u32,
    /// What ranks they have in the world; empty if there are too many to list.
    pub members: Vec<u32>,
    /// Whether this rank has left the group.
    pub has_left: bool,
    /// How many calls were made. Those that have not begun are queued.
    pub made: u64,
    /// How many bytes went into calls that have ended.
    pub bytes: u64,
    /// How many nanoseconds were spent in them.
    pub busy: u64,
    /// How many calls have ended.
    pub ended: u64,
    /// How many of them have failed.
    pub failed: u64,
    /// How many nanoseconds numbers were combined in them, as far as a [`Stopwatch`] has seen that.
    ///
    /// [`Stopwatch`]: super::Stopwatch
    pub combined: u64,
    /// The last ones, in their order. Of those that were written meanwhile some may be missing.
    pub calls: Vec<CallRecord>,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Which of the group's it is, from 1.
    pub number: u64,
    /// What was called.
    pub call: [u64; 2],
    /// When it was queued, if it was.
    pub queued: Option<u64>,
    /// When it began.
    pub began: u64,
    /// What came of it, if it has ended.
    pub end: Option<CallEnd>,
    /// For which rank of the group it waits, or waited at last, if that took long.
    pub waits_for: Option<u32>,
    /// From where in the program it was made, if that was noted: which of the snapshot's sites.
    pub site: Option<u16>,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// When it ended.
    pub at: u64,
    /// Whether it succeeded.
    pub is_good: bool,
    /// For how many nanoseconds it has combined numbers.
    pub combined: u64,
}

/// Why a file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The system does not let it be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error("it is not the record of a rank")]
    Other,
    /// It is of another time.
    #[error("it is of version {found}, and this program reads version {}", VERSION)]
    Version {
        /// Its version.
        found: u64,
    },
}

impl Snapshot {
    /// Reads a file, which its rank may be writing.
    ///
    /// # Errors
    /// When it cannot be read, or is not a recording of this version.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let failed = |source| Unreadable::File { path: path.to_owned(), source };
        // It may be anything that somebody calls a recording, which may have to be waited for.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is no file")));
        }
        let first = copy(&file).map_err(failed)?;
        AtomicU64::in_order();
        let second = copy(&file).map_err(failed)?;
        let mut snapshot = Self::parse(&first, &second)?;
        snapshot.is_alive = is_held(&file);
        Ok(snapshot)
    }

    /// Of a recording of this very process.
    pub fn of(recording: &Recording) -> Self {
        let first = words_of(recording.layout());
        AtomicU64::in_order();
        let second = words_of(recording.layout());
        let snapshot = Self::from_words(&first, &second).expect("it is a recording");
        Self { is_alive: true, ..snapshot }
    }

    /// What two copies of a file say, of which one was made after the other.
    ///
    /// # Errors
    /// When they are no copies of a recording of this version.
    pub fn parse(first: &[u8], second: &[u8]) -> Result<Self, Unreadable> {
        Self::from_words(&in_words(first), &in_words(second))
    }

    fn from_words(first: &[u64], second: &[u64]) -> Result<Self, Unreadable> {
        let (Some(head), Some(again)) = (first.get(..PAGE_WORDS), second.get(..PAGE_WORDS)) else {
            return Err(Unreadable::Other);
        };
        if head[head::MAGIC] != MAGIC {
            return Err(Unreadable::Other);
        }
        if head[head::VERSION] != VERSION {
            return Err(Unreadable::Version { found: head[head::VERSION] });
        }
        let times = Times::of(head, again);
        // What a call of the first copy refers to was there before the second.
        let sites = sites(second);
        let places = |words: &[u64]| words.get(GROUPS_AT..).unwrap_or_default().to_vec();
        let (first, second) = (places(first), places(second));
        let places = first.chunks_exact(GROUP_WORDS).zip(second.chunks_exact(GROUP_WORDS));
        let groups = places.take(GROUPS).filter_map(|(a, b)| group(a, b, times, sites.len()));
        Ok(Self {
            rank: head[head::RANK] as u32,
            world: (head[head::RANK] >> 32) as u32,
            epoch: head[head::EPOCH],
            process: head[head::PROCESS] as u32,
            job: text_in(head, head::JOB),
            has_left: head[head::LEFT] != 0,
            is_alive: false,
            groups: groups.collect(),
            sites,
        })
    }
}

/// The sites that are written in a copy.
fn sites(words: &[u64]) -> Vec<String> {
    let written = (words[head::SITES] as usize).min(SITES);
    let places = words[PAGE_WORDS..].chunks_exact(SITE_WORDS);
    places.take(written).map(text_of).collect()
}

/// A group of which there are two copies, unless it was just begun.
fn group(first: &[u64], second: &[u64], times: Times, sites: usize) -> Option<GroupRecord> {
    let stamp = first[group::STAMP];
    if stamp == 0 || !stamp.is_multiple_of(2) || second[group::STAMP] != stamp {
        return None;
    }
    let entries = |words: &[u64]| words[PAGE_WORDS..].to_vec();
    let (one, other) = (entries(first), entries(second));
    let pairs = one.chunks_exact(entry::WORDS).zip(other.chunks_exact(entry::WORDS));
    let mut calls: Vec<CallRecord> =
        pairs.filter_map(|(first, second)| call(first, second, times, sites)).collect();
    calls.sort_unstable_by_key(|call| call.number);
    let last = calls.last().map_or(0, |call| call.number);
    Some(GroupRecord {
        name: text_in(first, group::NAME),
        rank: first[group::RANK] as u32,
        world: (first[group::RANK] >> 32) as u32,
        members: members(first),
        has_left: first[group::LEFT] != 0,
        made: first[group::QUEUED].max(last),
        bytes: first[group::BYTES],
        busy: times.span(first[group::BUSY]),
        ended: first[group::ENDED],
        failed: first[group::FAILED],
        combined: times.span(first[group::COMBINED]),
        calls,
    })
}

fn members(head: &[u64]) -> Vec<u32> {
    let listed = (head[group::LISTED] as usize).min(group::MOST_MEMBERS);
    let pairs = head[group::MEMBERS..PAGE_WORDS].iter();
    pairs.flat_map(|pair| [*pair as u32, (*pair >> 32) as u32]).take(listed).collect()
}

fn call(first: &[u64], second: &[u64], times: Times, sites: usize) -> Option<CallRecord> {
    let (first, second) = (first.try_into().ok()?, second.try_into().ok()?);
    let words = entry::agree(first, second)?;
    let number = words[entry::NUMBER];
    let (queued, detail) = (words[entry::QUEUED], words[entry::DETAIL]);
    let combined = times.span(entry::combined_in(detail));
    let site = entry::site_in(detail).checked_sub(1).filter(|&site| usize::from(site) < sites);
    Some(CallRecord {
        number,
        call: [words[entry::CALL], words[entry::CALL + 1]],
        queued: (queued != 0).then(|| times.wall(queued)),
        began: times.wall(words[entry::BEGAN]),
        end: entry::end_of(words[entry::ENDED]).map(|(at, is_good)| CallEnd {
            at: times.wall(at),
            is_good,
            combined,
        }),
        waits_for: entry::awaited_by(number, words[entry::AWAITED]),
        site,
    })
}

/// The head and as many groups as it says there are.
fn copy(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; size_of::<Page>()];
    if let Err(error) = file.read_exact_at(&mut head, 0) {
        // A file that is too short is no recording, which is said elsewhere.
        let is_short = error.kind() == io::ErrorKind::UnexpectedEof;
        return if is_short { Ok(Vec::new()) } else { Err(error) };
    }
    let used = in_words(&head)[head::USED].min(GROUPS as u64) as usize;
    let mut bytes = head;
    bytes.resize(offset_of!(Layout, groups) + used * size_of::<Group>(), 0);
    let mut filled = size_of::<Page>();
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Whether the process that writes it is there: it has locked it, and the kernel ends that with it.
fn is_held(file: &File) -> bool {
    matches!(fcntl_getlk(file, &Flock::from(FlockType::ReadLock)), Ok(Some(_)))
}

fn in_words(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

fn words_of(layout: &Layout) -> Vec<u64> {
    let used = (layout.head.get(head::USED) as usize).min(GROUPS);
    let mut words: Vec<u64> = layout.head.words.iter().map(Word::read).collect();
    words.extend(layout.sites.iter().flat_map(|site| &site.words).map(Word::read));
    for group in &layout.groups[..used] {
        words.extend(group.head.words.iter().map(Word::read));
        words.extend(group.ring.iter().flat_map(|entry| &entry.words).map(Word::read));
    }
    words
}

const GROUP_WORDS: usize = PAGE_WORDS + CALLS * entry::WORDS;
const GROUPS_AT: usize = PAGE_WORDS + SITES * SITE_WORDS;
