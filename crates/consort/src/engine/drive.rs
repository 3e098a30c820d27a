//! Takes an operation's turns.

use consort_sys::board::{Board, Header};
use consort_sys::reach::Unread;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::ground::Ground;

/// An operation as a number of turns, counted from 0.
///
/// In turn *t* a rank [publishes](Self::publish) and posts; then it waits for what
/// [`after`](Self::after) says and [uses](Self::consume) it. After the last post there may be turns
/// that only use what was published.
///
/// What was published in turn *t* may be used up to turn *t* + [`Board::LAG`].
pub(super) trait Turns {
    /// How many posts there are, the same on every rank, at least one.
    fn posts(&self) -> u32;

    /// How many turns there are, the same on every rank.
    fn turns(&self) -> u32;

    /// Whether something may be published in buffers, and not only in lines. The same on every rank.
    fn uses_buffers(&self) -> bool {
        true
    }

    /// How many [stages](Ground::stage) are used, the same on every rank.
    fn stages(&self) -> u32 {
        0
    }

    /// Where in this rank's arena its operand lies, if the others are to reach it there.
    fn window(&self) -> Option<u64> {
        None
    }

    /// What went wrong, once all turns are taken.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Whether other ranks use this one's own memory, not only what it has published.
    fn leaves_memory_to_others(&self) -> bool {
        self.window().is_some()
    }

    /// Writes this rank's data of the turn into its buffer, or gives it to be written into its
    /// line if it is small enough.
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_>;

    /// Does what need not wait for the others' posts of the turn.
    fn meanwhile(&mut self, _turn: u32, _view: &View<'_>) {}

    /// Who has to have posted what before this rank uses it.
    fn after(&self, turn: u32) -> Need;

    /// Uses what others have published.
    fn consume(&mut self, turn: u32, view: &View<'_>);
}

/// What can go wrong when ranks use each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A rank said something impossible.
    Nonsense { rank: usize },
    /// A rank's memory could not be read.
    Unreachable { rank: usize, error: Unread },
}

/// Whom to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nobody,
    /// One rank's post of a turn.
    One(usize, u32),
    /// Everyone's post of a turn.
    Everyone(u32),
}

/// What an operation sees of the group's memory.
pub(super) struct View<'a> {
    pub(super) ground: &'a Ground,
    board: &'a Board,
    first: u32,
    first_stage: u32,
}

impl<'a> View<'a> {
    pub(super) fn me(&self) -> usize {
        self.ground.me()
    }

    pub(super) fn world(&self) -> usize {
        self.ground.world()
    }

    /// This rank's buffer for a turn.
    #[inline]
    pub(super) fn mine(&self, turn: u32) -> Target<'_> {
        self.ground.mine(self.first.wrapping_add(turn))
    }

    /// What a rank published in a turn: `len` bytes in its line or its buffer.
    #[inline]
    pub(super) fn theirs(&self, rank: usize, turn: u32, len: usize) -> Source<'_> {
        let step = self.first.wrapping_add(turn);
        if len <= Board::INLINE {
            self.board.inline(rank, step).slice(0..len)
        } else {
            self.ground.theirs(rank, step).slice(0..len)
        }
    }

    /// What a rank published in its buffer in a turn, however little it is.
    #[inline]
    pub(super) fn buffer_of(&self, rank: usize, turn: u32) -> Source<'_> {
        self.ground.theirs(rank, self.first.wrapping_add(turn))
    }

    /// A rank's stage, counted from the operation's first.
    #[inline]
    pub(super) fn stage(&self, rank: usize, index: u32) -> Target<'_> {
        self.ground.stage(rank, Ground::stage_after(self.first_stage, index))
    }

    /// Where in its arena a rank's operand lies, as it has said in a turn.
    pub(super) fn window(&self, rank: usize, turn: u32) -> Option<u64> {
        self.board.header(rank, self.first.wrapping_add(turn)).window
    }

    /// Copies from a rank's private memory.
    ///
    /// # Errors
    /// When that is not possible, or no longer.
    pub(super) fn pull(&self, rank: usize, address: u64, into: Target<'_>) -> Result<(), Unread> {
        let reach = self.ground.reach(rank).ok_or(Unread::FORBIDDEN)?;
        reach.read(address, into)
    }

    /// Combines an operand of each rank, in the order of ranks, into every target.
    #[inline]
    pub(super) fn combine<'s>(
        &self,
        kernel: &Kernel,
        targets: &[Target<'_>],
        operand: impl Fn(usize) -> Source<'s>,
    ) {
        let bytes = targets.first().map_or(0, |target| target.len()) * self.world();
        self.ground.watch().time(bytes, || match self.world() {
            2 => kernel.reduce(targets, &[operand(0), operand(1)]),
            world if world <= FEW => {
                let operands: [Source<'s>; FEW] =
                    std::array::from_fn(|rank| operand(rank.min(world - 1)));
                kernel.reduce(targets, &operands[..world]);
            }
            world => kernel.reduce(targets, &(0..world).map(operand).collect::<Vec<_>>()),
        });
    }

    /// Publishes data that goes to everyone: into the line if it fits, else into the buffer.
    #[inline]
    pub(super) fn publish<'d>(&self, turn: u32, data: Source<'d>) -> Source<'d> {
        if data.len() <= Board::INLINE {
            return data;
        }
        self.mine(turn).slice(0..data.len()).copy_from(data);
        data.slice(0..0)
    }
}

/// An operation on its way.
#[derive(Debug)]
pub(super) struct Drive<T> {
    turns: T,
    turn: u32,
    phase: Phase,
    /// The step of turn 0.
    first: u32,
    /// The stage that it uses first.
    first_stage: u32,
    header: Header,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Publish,
    Consume,
}

/// How far it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// To the end.
    Done,
    /// Until it needs a step of a rank.
    Blocked { rank: usize, step: u32 },
    /// Until it found that a rank has made other calls.
    Differs { rank: usize },
    /// Until it seemed that a rank has made other calls. It can go on if that is not so.
    Suspects { rank: usize },
    /// Until a rank's memory could not be read.
    Unreachable { rank: usize, error: Unread },
    /// To the end, but ranks may have used memory of each other that was no longer theirs: it
    /// counts only if nobody has given up.
    DoneUnlessHalted,
}

impl<T: Turns> Drive<T> {
    pub(super) fn new(turns: T, first: u32, first_stage: u32, digest: u64) -> Self {
        let header = Header { digest, window: turns.window() };
        Self { turns, turn: 0, phase: Phase::Publish, first, first_stage, header }
    }
}

/// An operation on its way, whatever its turns are.
pub(super) trait GoOn {
    /// Goes on as far as it can without waiting.
    fn go_on(&mut self, board: &mut Board, ground: &Ground) -> Progress;
}

impl<T: Turns> GoOn for Drive<T> {
    #[inline]
    fn go_on(&mut self, board: &mut Board, ground: &Ground) -> Progress {
        let posts = self.turns.posts();
        while self.turn < self.turns.turns() {
            if self.phase == Phase::Publish {
                if self.turn < posts
                    && let Some(stopped) = self.publish(board, ground)
                {
                    return stopped;
                }
                let Self { first, first_stage, .. } = *self;
                self.turns.meanwhile(self.turn, &View { ground, board, first, first_stage });
                self.phase = Phase::Consume;
            }
            if let Some(stopped) = self.meet(self.turns.after(self.turn), board) {
                return stopped;
            }
            let Self { first, first_stage, .. } = *self;
            self.turns.consume(self.turn, &View { ground, board, first, first_stage });
            self.phase = Phase::Publish;
            self.turn += 1;
        }
        match self.turns.trouble() {
            None if self.turns.leaves_memory_to_others() => Progress::DoneUnlessHalted,
            None => Progress::Done,
            Some(Trouble::Nonsense { rank }) => Progress::Differs { rank },
            Some(Trouble::Unreachable { rank, error }) => Progress::Unreachable { rank, error },
        }
    }
}

impl GoOn for Box<dyn GoOn + '_> {
    fn go_on(&mut self, board: &mut Board, ground: &Ground) -> Progress {
        (**self).go_on(board, ground)
    }
}

impl<T: Turns> Drive<T> {
    #[inline]
    fn publish(&mut self, board: &mut Board, ground: &Ground) -> Option<Progress> {
        let step = self.first.wrapping_add(self.turn);
        let places = self.turns.uses_buffers().then_some(Ground::BUFFERS);
        if let Some((rank, step)) = board.in_the_way(step, places) {
            return Some(Progress::Blocked { rank, step });
        }
        if let Some(rank) = board.suspect() {
            return Some(Progress::Suspects { rank });
        }
        let Self { first, first_stage, .. } = *self;
        let view = View { ground, board, first, first_stage };
        let inline = self.turns.publish(self.turn, &view);
        board.post(step, self.header, inline);
        None
    }

    /// Whether what is needed is there, and was posted in the same call.
    #[inline]
    fn meet(&self, need: Need, board: &mut Board) -> Option<Progress> {
        let (ranks, turn) = match need {
            Need::Nobody => return None,
            Need::One(rank, turn) => (rank..rank + 1, turn),
            Need::Everyone(turn) => (0..board.world(), turn),
        };
        let step = self.first.wrapping_add(turn);
        for rank in ranks {
            if !board.has_posted(rank, step) {
                return Some(Progress::Blocked { rank, step });
            }
            if board.header(rank, step).digest != self.header.digest {
                return Some(Progress::Differs { rank });
            }
        }
        None
    }
}

/// So many operands need no allocation.
const FEW: usize = 16;
