//! Who has come how far, and what they are calling: the lines through which the ranks of a group on
//! one host keep in step. `board/README.md` has the protocol.

mod halt;
mod history;
#[cfg(test)]
mod models;
#[cfg(test)]
mod stages;
mod steps;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use self::halt::Ends;
pub use self::history::Entry;
use self::steps::{Lines, Steps};
pub use self::watch::{Alarm, End, Watch};
use crate::arena::Arena;
use crate::view::{Source, Target};
use crate::wait::Patience;
use crate::word::Word;

/// What a rank says with a step, beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A digest of all calls so far: equal on ranks that made the same calls.
    pub digest: u64,
    /// Where in the rank's arena its operand lies, if it lies there.
    pub window: Option<u64>,
}

/// A group's lines, as one rank sees them.
#[derive(Debug)]
pub struct Board {
    me: usize,
    blocks: Blocks,
    steps: Steps,
    patience: Patience,
    /// A rank that seems to have made other calls.
    suspect: Option<usize>,
}

impl Board {
    /// How many bytes of its arena each rank gives, on pages of their own and zero at first.
    pub const BYTES: usize = 8192;
    /// How many lines each rank has: so many steps, less the lag, it may be ahead of another.
    pub const DEPTH: u32 = 32;
    /// How many steps before the last one it posted a rank may still read.
    pub const LAG: u32 = 2;
    /// How much data fits into a line.
    pub const INLINE: usize = 40;

    /// For the rank `me` of those whose blocks lie at these offsets of their arenas. `None` if one
    /// does not.
    pub fn new(me: usize, blocks: &[(Arena, usize)], patience: Patience) -> Option<Self> {
        let steps = Steps::new(me, blocks.len(), Self::DEPTH, Self::LAG);
        let blocks = Blocks(blocks.iter().map(Block::new).collect::<Option<_>>()?);
        Some(Self { me, blocks, steps, patience, suspect: None })
    }

    /// How many ranks there are.
    #[inline]
    pub fn world(&self) -> usize {
        self.blocks.0.len()
    }

    /// Whether a rank has posted a step.
    #[inline]
    pub fn has_posted(&mut self, rank: usize, step: u32) -> bool {
        self.steps.has_posted(&self.blocks, rank, step)
    }

    /// The first other rank that has not posted a step.
    #[inline]
    pub fn behind(&mut self, step: u32) -> Option<usize> {
        self.steps.behind(&self.blocks, step)
    }

    /// The first other rank that may still read what a step's line held before, and what the place
    /// held that the step has among `places` places, used in turn, if it has one; and the step that
    /// the rank has to post first.
    ///
    /// # Panics
    /// When there are more places than lines.
    #[inline]
    pub fn in_the_way(&mut self, step: u32, places: Option<u32>) -> Option<(usize, u32)> {
        let places = places.unwrap_or(Self::DEPTH);
        assert!(places <= Self::DEPTH, "what holds for the place holds for the line");
        let behind = self.steps.in_the_way(&self.blocks, step, places);
        if behind.is_none() {
            self.compare(step.wrapping_sub(places).wrapping_add(1 + Self::LAG));
        }
        behind
    }

    /// A rank that seems to have made other calls, as was noticed while
    /// [looking who is in the way](Self::in_the_way): its own next step may have been what was
    /// seen, so its [calls](Self::calls_of) have to be looked up. Each suspicion is told once.
    #[inline]
    pub fn suspect(&mut self) -> Option<usize> {
        self.suspect.take()
    }

    /// Whoever sends and sends, and reads nothing, has no other occasion to compare.
    #[inline]
    fn compare(&mut self, step: u32) {
        let (blocks, line) = (&self.blocks.0, self.steps.line_of(step));
        let digest = |rank: usize| blocks[rank].line(line).digest().load(Ordering::Relaxed);
        let me = self.me;
        let differs = |&rank: &usize| rank != me && digest(rank) != digest(me);
        if let Some(rank) = self.steps.just_seen_at(step).find(differs) {
            self.suspect = Some(rank);
        }
    }

    /// Posts a step of this rank, with so much data in its line. Nobody may be
    /// [in the way](Self::in_the_way).
    ///
    /// # Panics
    /// When the data does not fit.
    #[inline]
    pub fn post(&mut self, step: u32, header: Header, inline: Source<'_>) {
        let line = self.blocks.0[self.me].line(self.steps.line_of(step));
        line.digest().store(header.digest, Ordering::Relaxed);
        line.window().store(header.window.map_or(0, |offset| offset + 1), Ordering::Relaxed);
        line.data().slice(0..inline.len()).copy_from(inline);
        self.steps.post(&self.blocks, step);
    }

    /// What a rank said with a step that it has posted.
    #[inline]
    pub fn header(&self, rank: usize, step: u32) -> Header {
        let line = self.blocks.0[rank].line(self.steps.line_of(step));
        Header {
            digest: line.digest().load(Ordering::Relaxed),
            window: line.window().load(Ordering::Relaxed).checked_sub(1),
        }
    }

    /// The data in the line of a step that a rank has posted.
    #[inline]
    pub fn inline(&self, rank: usize, step: u32) -> Source<'_> {
        self.blocks.0[rank].line(self.steps.line_of(step)).data().into()
    }

    /// Waits until a rank has posted a step. `check` is asked before each sleep whether to go on.
    ///
    /// # Errors
    /// What `check` says.
    #[inline]
    pub fn wait<E>(
        &mut self,
        rank: usize,
        step: u32,
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { steps, blocks, patience, .. } = self;
        let (steps, blocks) = (RefCell::new(steps), &*blocks);
        patience.wait(
            || steps.borrow_mut().has_posted(blocks, rank, step),
            |limit| steps.borrow().doze(blocks, rank, step, limit),
            check,
        )
    }

    /// Sleeps until a rank posts a step, or the limit passes, or for no reason.
    pub fn doze(&self, rank: usize, step: u32, limit: Duration) {
        self.steps.doze(&self.blocks, rank, step, limit);
    }

    /// A rank's step, to be slept on beside other things.
    pub fn watch(&self, rank: usize, step: u32) -> Watch {
        Watch::new(self.blocks.clone(), rank, self.steps.line_of(step), step)
    }

    /// What ends the group from any thread.
    pub fn alarm(&self) -> Alarm {
        Alarm::new(self.blocks.clone(), self.me)
    }

    /// Whether somebody has ended the group.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.blocks.is_halted(self.me)
    }

    /// Says, once, that this rank uses the board no more. Every block counts who has: its owner
    /// may take it away as soon as all have left, so nobody else may have to look at it then.
    pub fn leave(&self) {
        for block in self.blocks.0.iter() {
            // Pairs with the load in `is_deserted`: what this rank read and wrote is over.
            block.left().fetch_add(1, Ordering::Release);
        }
    }

    /// Whether nobody uses this rank's block any more, if so many have died without leaving.
    pub fn is_deserted(&self, dead: usize) -> bool {
        self.blocks.0[self.me].left().load(Ordering::Acquire) as usize + dead == self.world()
    }

    /// Notes what this rank calls, for the others to see should they differ.
    #[inline]
    pub fn note(&self, entry: &Entry) {
        self.blocks.0[self.me].history().note(entry);
    }

    /// The first of the calls noted by this rank and another in which they differ: this rank's and
    /// the other's.
    pub fn first_difference(&self, rank: usize) -> Option<(Entry, Entry)> {
        let theirs = self.calls_of(rank);
        self.calls_of(self.me).into_iter().find_map(|mine| {
            let other = theirs.iter().find(|other| other.number == mine.number)?;
            (other.digest != mine.digest).then_some((mine, *other))
        })
    }

    /// The last calls that a rank noted, oldest first.
    pub fn calls_of(&self, rank: usize) -> Vec<Entry> {
        self.blocks.0[rank].history().entries()
    }
}

/// Every rank's block.
#[derive(Clone, Debug)]
struct Blocks(Arc<[Block]>);

impl Blocks {
    fn halt(&self, me: usize, verdict: &[u8]) {
        // Only a rank's first verdict counts: others may be reading it.
        if self.0[me].given().swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        self.0[me].verdict().slice(0..verdict.len()).copy_from(verdict.into());
        halt::halt(self, me);
        for block in &*self.0 {
            for line in 0..Board::DEPTH as usize {
                block.line(line).step().wake();
            }
        }
    }

    #[inline]
    fn is_halted(&self, me: usize) -> bool {
        self.0[me].halted().load(Ordering::Acquire) != 0
    }

    fn end(&self, me: usize) -> Option<End> {
        Some(match halt::heard(self, me)? {
            Ok(by) => End::By { rank: by, verdict: Source::from(self.0[by].verdict()).to_vec() },
            Err(word) => End::Nonsense { word },
        })
    }
}

impl Ends for Blocks {
    type Word = AtomicU32;

    fn world(&self) -> usize {
        self.0.len()
    }

    fn halted(&self, rank: usize) -> &AtomicU32 {
        self.0[rank].halted()
    }
}

impl Lines for Blocks {
    type Word = AtomicU32;

    #[inline]
    fn step(&self, rank: usize, line: usize) -> &AtomicU32 {
        self.0[rank].line(line).step()
    }

    #[inline]
    fn sleepers(&self, rank: usize) -> &AtomicU32 {
        self.0[rank].word(0)
    }
}

/// One rank's block: a line for the count of sleepers, one for the end (halted, left, given), the
/// step lines, the history, the verdict of a rank that ends the group.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    #[expect(dead_code, reason = "the memory stays mapped as long as it lives")]
    arena: Arena,
}

impl Block {
    fn new((arena, offset): &(Arena, usize)) -> Option<Self> {
        let view = arena.view(*offset, Board::BYTES)?;
        let start = NonNull::new(view.as_mut_ptr())?;
        (start.addr().get() % LINE == 0).then(|| Self { start, arena: arena.clone() })
    }

    #[inline]
    fn halted(&self) -> &AtomicU32 {
        self.word(LINE)
    }

    fn left(&self) -> &AtomicU32 {
        self.word(LINE + 4)
    }

    /// Whether this rank has given a verdict.
    fn given(&self) -> &AtomicU32 {
        self.word(LINE + 8)
    }

    #[inline]
    fn line(&self, line: usize) -> Line<'_> {
        Line { block: self, offset: (2 + line) * LINE }
    }

    /// Written once, before a halt word is.
    fn verdict(&self) -> Target<'_> {
        self.bytes(VERDICT, Alarm::VERDICT)
    }

    fn history(&self) -> history::History<'_> {
        history::History::new(self)
    }

    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> Target<'_> {
        debug_assert!(offset + len <= Board::BYTES);
        // SAFETY: the block has `BYTES` bytes, and the arena keeps them mapped.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: as above, and the places that are viewed as bytes are never used as words.
        unsafe { Target::from_raw(start, len) }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= Board::BYTES && offset.is_multiple_of(4));
        // SAFETY: the block has `BYTES` bytes, and the arena keeps them mapped.
        let word = unsafe { self.start.add(offset) };
        // SAFETY: it is aligned, as the block is on a cache line; nobody views these bytes as
        // anything but this atomic.
        unsafe { word.cast().as_ref() }
    }

    #[inline]
    fn word64(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= Board::BYTES && offset.is_multiple_of(8));
        // SAFETY: the block has `BYTES` bytes, and the arena keeps them mapped.
        let word = unsafe { self.start.add(offset) };
        // SAFETY: it is aligned, as the block is on a cache line; nobody views these bytes as
        // anything but this atomic.
        unsafe { word.cast().as_ref() }
    }
}

// SAFETY: the pointer is to shared memory that the arena keeps mapped; every access goes through
// atomics, or through views that the protocol gives to one writer at a time.
unsafe impl Send for Block {}
// SAFETY: as above; a shared `Block` only gives out atomics and views.
unsafe impl Sync for Block {}

/// One step line.
#[derive(Clone, Copy)]
struct Line<'a> {
    block: &'a Block,
    offset: usize,
}

impl<'a> Line<'a> {
    #[inline]
    fn step(self) -> &'a AtomicU32 {
        self.block.word(self.offset)
    }

    #[inline]
    fn digest(self) -> &'a AtomicU64 {
        self.block.word64(self.offset + 8)
    }

    #[inline]
    fn window(self) -> &'a AtomicU64 {
        self.block.word64(self.offset + 16)
    }

    #[inline]
    fn data(self) -> Target<'a> {
        self.block.bytes(self.offset + 24, Board::INLINE)
    }
}

/// What a processor hands over at a time.
const LINE: usize = 64;
/// Where the verdict is.
const VERDICT: usize = Board::BYTES - Alarm::VERDICT;
