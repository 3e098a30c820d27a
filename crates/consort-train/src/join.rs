//! Ranks that do not have the same number of inputs.

use consort::Group;

use crate::error::{Error, Result};
use crate::pass::{Mode, Pass};
use crate::reducer::Reducer;

/// What becomes of a job when a rank has no more input and others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Uneven {
    /// The others go on. Gradients are still divided by the number of all ranks, as if those that have
    /// nothing left had gradients of zero: every input counts the same.
    #[default]
    DivideByWorld,
    /// The others go on. Gradients are divided by the number of ranks that have one: every step counts the
    /// same.
    DivideByLive,
    /// All end together with the first.
    Stop,
}

/// Training on inputs of which ranks have different numbers. A rank that has no more input would leave
/// the others waiting for it; in [`finish`](Self::finish) it takes part in what they do, without gradients,
/// until all are done.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, Reducer, Uneven};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[2])];
/// let reducer = Reducer::new(&group, parameters, Options::new())?;
/// let mut join = reducer.join(Uneven::DivideByWorld)?;
/// for input in [1.0_f32, 2.0, 3.0] {
///     let Some(pass) = join.begin()? else { break };
///     pass.ready(0, &[input, input])?;
///     drop(pass.finish()?);
/// }
/// let end = join.finish()?;
/// // Who had the most inputs has the last parameters: the others get them from there.
/// let mut weights = [0_u8; 8];
/// consort_train::broadcast(&group, &mut [&mut weights], end.last)?;
/// # Ok::<(), consort_train::Error>(())
/// ```
///
/// If it is dropped before its end, the group is ended for all: the others would wait for this rank.
#[derive(Debug)]
#[must_use = "other ranks wait until it is finished"]
pub struct Join {
    reducer: Reducer,
    /// The one it began with: the reducer may have another by the time this is dropped.
    group: Group,
    uneven: Uneven,
    /// Who had an input when all were asked last.
    live: Vec<bool>,
    is_over: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// The highest of those ranks that had the last input: its parameters are the newest.
    pub last: u32,
    /// How many passes of others this rank took part in without an input of its own.
    pub shadowed: u64,
}

/// What a rank says before it does something for which others are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It has no more input.
    Gone,
    /// It has a pass to average.
    Pass,
    /// It has as many bytes of buffers to be made the same.
    Buffers(u64),
}

impl Join {
    /// Every rank has to call it.
    ///
    /// # Errors
    /// When they do not want the same; and why the group has ended, if it has.
    pub(crate) fn begin_with(reducer: Reducer, uneven: Uneven) -> Result<Self> {
        let group = reducer.group();
        let mut wishes = vec![0_u8; group.world()];
        group.all_gather(&[uneven as u8], &mut wishes)?;
        if let Some(rank) = wishes.iter().position(|&wish| wish != wishes[0]) {
            let [first, other] = [wishes[0], wishes[rank]].map(Uneven::in_words);
            let differences =
                format!("  uneven inputs: rank 0 has {first}, rank {rank} has {other}");
            return Err(Error::Differs { differences });
        }
        if uneven == Uneven::DivideByLive {
            reducer.check_division()?;
        }
        let live = vec![true; group.world()];
        Ok(Self { reducer, group, uneven, live, is_over: false })
    }

    /// Begins with a backward pass, as [`Reducer::begin`]. `None` if another rank has no more input, and
    /// all end with it ([`Uneven::Stop`]).
    ///
    /// Passes that are not averaged are begun by [`Reducer::begin_local`], as always.
    ///
    /// # Errors
    /// As [`Reducer::begin`].
    pub fn begin(&mut self) -> Result<Option<Pass>> {
        // Before the others hear of it.
        self.reducer.check_idle()?;
        self.tell(Word::Pass)?;
        if self.uneven == Uneven::Stop && self.live.contains(&false) {
            return Ok(None);
        }
        self.reducer.start(Mode::Averaged).map(Some)
    }

    /// Gives all ranks that have an input the buffers of the first of them. The others take part, and get
    /// theirs at the end, with all else, from the [last](Joined::last).
    ///
    /// # Errors
    /// When ranks have different numbers of bytes; and why the group has ended, if it has.
    pub fn sync_buffers(&mut self, pieces: &mut [&mut [u8]]) -> Result<()> {
        let mut bytes = pieces.concat();
        self.tell(Word::Buffers(bytes.len() as u64))?;
        self.broadcast(&mut bytes)?;
        let mut rest = &bytes[..];
        for piece in pieces {
            let (mine, others) = rest.split_at(piece.len());
            piece.copy_from_slice(mine);
            rest = others;
        }
        Ok(())
    }

    /// This rank has no more input: takes part in what the others do until all are done. What local
    /// passes have left is forgotten.
    ///
    /// # Errors
    /// Why the group has ended, if it has.
    pub fn finish(mut self) -> Result<Joined> {
        self.reducer.check_idle()?;
        let end = self.shadow()?;
        self.is_over = true;
        self.reducer.set_divisor(self.group.world());
        Ok(end)
    }

    fn shadow(&mut self) -> Result<Joined> {
        self.reducer.forget();
        let mut shadowed = 0;
        loop {
            let before = self.live.clone();
            match self.tell(Word::Gone)? {
                Word::Gone => {
                    let last = before.iter().rposition(|is_live| *is_live).unwrap_or(0);
                    return Ok(Joined { last: last as u32, shadowed });
                }
                // The others have heard that they are to end.
                Word::Pass if self.uneven == Uneven::Stop => {}
                Word::Pass => {
                    drop(self.reducer.start(Mode::Shadow)?.finish()?);
                    shadowed += 1;
                }
                Word::Buffers(len) => self.broadcast(&mut vec![0; len as usize])?,
            }
        }
    }

    /// Says what comes next here, and hears what comes next on all ranks that have an input.
    fn tell(&mut self, mine: Word) -> Result<Word> {
        let mut words = vec![0_u64; self.group.world()];
        self.group.all_gather(&[mine.code()], &mut words)?;
        self.live = words.iter().map(|&word| word != Word::Gone.code()).collect();
        let live = self.live.iter().filter(|is_live| **is_live).count();
        let mut said = words.iter().copied().filter(|&word| word != Word::Gone.code());
        let next = said.next().unwrap_or(Word::Gone.code());
        if said.any(|word| word != next) {
            return Err(self.reducer.give_up(differ(&words)));
        }
        if self.uneven == Uneven::DivideByLive && live > 0 {
            self.reducer.set_divisor(live);
        }
        Ok(Word::of(next))
    }

    /// The first rank that has an input gives all others these bytes.
    fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        let root = self.live.iter().position(|is_live| *is_live).unwrap_or(0);
        self.group.broadcast(bytes, root as u32)?;
        Ok(())
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        if !self.is_over {
            let reason = "training on uneven inputs was left before its end: Join::finish waits for the others";
            self.group.abort(reason);
        }
    }
}

impl Uneven {
    fn in_words(code: u8) -> &'static str {
        match code {
            code if code == Self::DivideByWorld as u8 => "divide by the world",
            code if code == Self::DivideByLive as u8 => "divide by those who have one",
            code if code == Self::Stop as u8 => "stop",
            _ => "something of another version",
        }
    }
}

impl Word {
    fn code(self) -> u64 {
        match self {
            Self::Gone => 0,
            Self::Pass => 1,
            Self::Buffers(bytes) => bytes + 2,
        }
    }

    fn of(code: u64) -> Self {
        match code {
            0 => Self::Gone,
            1 => Self::Pass,
            more => Self::Buffers(more - 2),
        }
    }
}

fn differ(words: &[u64]) -> Error {
    let said = words.iter().enumerate().map(|(rank, &word)| match Word::of(word) {
        Word::Gone => format!("rank {rank} has no more input"),
        Word::Pass => format!("rank {rank} begins a pass"),
        Word::Buffers(bytes) => format!("rank {rank} synchronises {bytes} bytes of buffers"),
    });
    let said: Vec<String> = said.collect();
    Error::Argument(format!("ranks do not do the same in a join: {}", said.join(", ")))
}
