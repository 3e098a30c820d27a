//! Groups of calls, and how calls get to their streams.
//!
//! Between `ncclGroupStart` and `ncclGroupEnd` a thread's calls only wait. At the outermost end they are issued:
//! those that hang together, because they are of one communicator or on one stream, as one *unit*. A unit
//! begins when all before it are done, on its streams and of its communicators, and everything in it goes on at
//! once; so a thread can make the calls of several ranks, and messages need no order.
//!
//! What comes into being in a group does so before its calls, which cannot be about it. But where a window is closed, the
//! communicator's calls before that may be about the window, and those behind it are behind it on ranks that make them
//! without a group. So a group is carried out in *stages*, and closing a window begins the next one for its communicator: what
//! was called before has its place in the stages before, and what comes behind in this one. It does so whether or
//! not there were calls before, so that ranks of one communicator that a thread makes calls for, which close the same
//! windows, do so in the same stage, and none waits in one for a rank whose part is in another.
//!
//! **No deadlock.** A unit gets all of its places [at once](crate::order), and whatever it waits for has got its own
//! before.

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use crate::birth::{Birth, Due, carry_out_all, carry_out_all_apart};
use crate::comm::{Communicator, noting};
use crate::deed::{Begun, Deed};
use crate::failure::{Failure, Result, catch};
use crate::order::Order;
use crate::stream::Stream;
use crate::turns::Turn;
use crate::watched::Watched;

/// Begins a group of calls, or one more within it.
pub(crate) fn start() {
    with_open(|open| open.depth += 1);
}

/// Ends a group of calls. If it is the outermost, its calls are issued.
///
/// # Errors
/// When none has begun, a call of it has failed, or, for those without a stream, it fails now.
pub(crate) fn end() -> Result<()> {
    match close()? {
        Some(open) => open.issue(),
        None => Ok(()),
    }
}

/// Ends a group of calls without issuing them. Says how many bytes they would have moved, and how many there
/// are, if it is the outermost.
///
/// # Errors
/// As [`end`].
pub(crate) fn end_in_thought() -> Result<(usize, usize)> {
    let Some(open) = close()? else { return Ok((0, 0)) };
    let beyond = || {
        Failure::usage(
            "a group that is only simulated neither makes nor ends communicators and windows",
        )
    };
    let has_births = open.stages.iter().any(|stage| !stage.births.is_empty());
    if let Some(why) = open.failure.or_else(|| has_births.then(beyond)) {
        return Err(call_off(open.stages, why));
    }
    let entries: Vec<Entry> = open.stages.into_iter().flat_map(|stage| stage.entries).collect();
    Ok((entries.iter().map(|entry| entry.deed.bytes()).sum(), entries.len()))
}

/// Has a call carried out: when the group of calls ends, or now.
///
/// # Errors
/// If it is carried out now, and without a stream, why it failed.
pub(crate) fn call(
    comm: &Arc<Communicator>,
    stream: Option<Arc<Stream>>,
    deed: Deed,
) -> Result<()> {
    let entry = Entry { comm: comm.clone(), stream, deed };
    let waits = with_open(|open| -> Result<_> {
        if open.depth == 0 {
            return Ok(Some(entry));
        }
        open.admit(entry.comm.settings.blocking)?;
        open.stage_of(&entry.comm).entries.push(entry);
        Ok(None)
    })?;
    match waits {
        None => Ok(()),
        Some(Entry { comm, stream: None, deed }) => now(&comm, deed),
        Some(entry) => issue(vec![entry]),
    }
}

/// Carries out a call that nothing hangs together with. It waits for one place alone, so it needs no order with
/// others.
fn now(comm: &Communicator, deed: Deed) -> Result<()> {
    let mut turn = comm.turns.take();
    turn.begin();
    noting(comm, || deed.carry_out(None, &comm.at_work()?.group))
}

/// Has a communicator come into being: when the group of calls ends, or now.
///
/// # Errors
/// As [`call`]; and that it goes on in the background.
pub(crate) fn birth(birth: Birth) -> Result<()> {
    let waits = with_open(|open| -> Result<_> {
        if open.depth == 0 {
            return Ok(Some(birth));
        }
        open.admit(birth.is_blocking())?;
        open.push(birth);
        Ok(None)
    })?;
    waits.map_or(Ok(()), |birth| deliver(vec![birth]))
}

/// Checks a call that may be in a group: if it fails, the group does.
pub(crate) fn checked(body: impl FnOnce() -> Result<()>) -> Result<()> {
    catch(body).inspect_err(|failure| {
        with_open(|open| {
            if open.depth > 0 && *failure != Failure::in_progress() {
                open.failure.get_or_insert(failure.clone());
            }
        });
    })
}

/// A group of calls that has begun, or none.
struct Open {
    depth: usize,
    stages: Vec<Stage>,
    /// The communicators that close windows, each as often as it does.
    closing: Vec<Arc<Communicator>>,
    /// The first call that made no sense.
    failure: Option<Failure>,
    /// Whether its communicators block, once there is one.
    blocking: Option<bool>,
}

/// What is carried out before the next stage begins: what comes into being or is closed, and then calls.
#[derive(Default)]
struct Stage {
    births: Vec<Birth>,
    entries: Vec<Entry>,
}

/// A call that waits.
struct Entry {
    comm: Arc<Communicator>,
    stream: Option<Arc<Stream>>,
    deed: Deed,
}

impl Open {
    const NONE: Self =
        Self { depth: 0, stages: Vec::new(), closing: Vec::new(), failure: None, blocking: None };

    /// # Errors
    /// When communicators that block are mixed with others.
    fn admit(&mut self, blocking: bool) -> Result<()> {
        match *self.blocking.get_or_insert(blocking) == blocking {
            true => Ok(()),
            false => Err(Failure::usage(
                "a group of calls has communicators that block and others that do not: make two groups",
            )),
        }
    }

    fn push(&mut self, birth: Birth) {
        let stage = match &birth.parent {
            None => self.stage(0),
            Some(parent) => {
                if birth.is_end {
                    self.closing.push(parent.clone());
                }
                self.stage_of(parent)
            }
        };
        stage.births.push(birth);
    }

    /// Where a communicator is.
    fn stage_of(&mut self, comm: &Arc<Communicator>) -> &mut Stage {
        self.stage(self.closing.iter().filter(|it| Arc::ptr_eq(it, comm)).count())
    }

    fn stage(&mut self, number: usize) -> &mut Stage {
        if self.stages.len() <= number {
            self.stages.resize_with(number + 1, Stage::default);
        }
        &mut self.stages[number]
    }

    /// Whether or not something fails, all that follows is carried out: other ranks wait for it.
    fn issue(self) -> Result<()> {
        if let Some(why) = self.failure {
            return Err(call_off(self.stages, why));
        }
        let results = self
            .stages
            .into_iter()
            .flat_map(|Stage { births, entries }| [deliver(births), issue(entries)]);
        // What goes on in the background is told last.
        let goes_on = |result: &Result<()>| *result == Err(Failure::in_progress());
        let (apart, done): (Vec<_>, Vec<_>) = results.partition(goes_on);
        done.into_iter().chain(apart).fold(Ok(()), Result::and)
    }
}

/// Nothing of them comes into being, so that nobody waits for what nobody makes any more. Gives back why.
fn call_off(stages: Vec<Stage>, why: Failure) -> Failure {
    stages.into_iter().flat_map(|stage| stage.births).for_each(|birth| birth.call_off(&why));
    why
}

/// The group of calls, if it is the outermost that ends.
fn close() -> Result<Option<Open>> {
    with_open(|open| match open.depth {
        0 => Err(Failure::usage("ncclGroupEnd without ncclGroupStart")),
        1 => Ok(Some(mem::replace(open, Open::NONE))),
        _ => {
            open.depth -= 1;
            Ok(None)
        }
    })
}

/// Brings communicators into being, all at once.
fn deliver(births: Vec<Birth>) -> Result<()> {
    let dues: Vec<Due> = {
        let _order = Order::take();
        births.into_iter().map(Birth::due).collect()
    };
    // A group has one kind of them.
    match dues.first() {
        None => Ok(()),
        Some(due) if due.is_blocking() => carry_out_all(dues),
        Some(_) => carry_out_all_apart(dues),
    }
}

/// Gives calls to their streams, and carries out those that have none.
fn issue(entries: Vec<Entry>) -> Result<()> {
    let mut here = None;
    {
        let order = Order::take();
        for unit in Unit::of(entries) {
            here = here.or(unit.queue(&order));
        }
    }
    here.map_or(Ok(()), Lead::carry_out)
}

/// Calls that hang together.
#[derive(Default)]
struct Unit {
    parts: Vec<Part>,
    streams: Vec<Arc<Stream>>,
    /// Whether some are on no stream, so that whoever makes them waits.
    waits: bool,
}

/// The calls of one communicator.
struct Part {
    comm: Arc<Communicator>,
    deeds: Vec<Deed>,
}

impl Unit {
    /// What hangs together, with each communicator's calls in their order. Which unit comes first does not matter, as they
    /// have nothing in common.
    fn of(entries: Vec<Entry>) -> Vec<Self> {
        let mut units: Vec<Self> = Vec::new();
        for entry in entries {
            let (same, other): (Vec<_>, Vec<_>) =
                units.into_iter().partition(|unit| unit.has(&entry));
            units = other;
            let mut unit = same.into_iter().reduce(Self::join).unwrap_or_default();
            unit.add(entry);
            units.push(unit);
        }
        units
    }

    fn has(&self, entry: &Entry) -> bool {
        let same_stream = match &entry.stream {
            Some(stream) => self.streams.iter().any(|it| it.number() == stream.number()),
            None => self.waits,
        };
        same_stream || self.parts.iter().any(|part| Arc::ptr_eq(&part.comm, &entry.comm))
    }

    fn join(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.streams.extend(other.streams);
        self.waits |= other.waits;
        self
    }

    fn add(&mut self, Entry { comm, stream, deed }: Entry) {
        match stream {
            None => self.waits = true,
            Some(stream) if self.streams.iter().any(|it| it.number() == stream.number()) => {}
            Some(stream) => self.streams.push(stream),
        }
        match self.parts.iter_mut().find(|part| Arc::ptr_eq(&part.comm, &comm)) {
            Some(part) => part.deeds.push(deed),
            None => self.parts.push(Part { comm, deeds: vec![deed] }),
        }
    }

    /// Puts it on its streams. If whoever makes the calls waits, that one carries it out.
    fn queue(self, order: &Order) -> Option<Lead> {
        let parts: Vec<(Part, Turn)> = self
            .parts
            .into_iter()
            .map(|part| {
                let turn = part.comm.turns.take();
                (part, turn)
            })
            .collect();
        let mut streams = self.streams.into_iter();
        let leader = if self.waits { None } else { streams.next() };
        let gate = Arc::new(Gate::default());
        let mut held = 0;
        for stream in streams {
            let gate = gate.clone();
            held += 1;
            stream.push(order, move || {
                gate.hold();
                Ok(())
            });
        }
        let lead = Lead { parts, gate, held };
        match leader {
            None => Some(lead),
            Some(leader) => {
                leader.push(order, || lead.carry_out());
                None
            }
        }
    }
}

/// A unit that is to be carried out by whoever has it.
struct Lead {
    parts: Vec<(Part, Turn)>,
    /// Where the other streams wait meanwhile.
    gate: Arc<Gate>,
    held: usize,
}

impl Lead {
    /// Carries it out when everything before it is done.
    ///
    /// # Errors
    /// The first thing that went wrong. The communicators know, too.
    fn carry_out(mut self) -> Result<()> {
        self.gate.gather(self.held);
        let is_simple = matches!(&self.parts[..], [(part, _)] if part.is_simple());
        let result = match self.parts.pop() {
            Some((mut part, mut turn)) if is_simple => {
                turn.begin();
                let result = part.carry_out();
                drop(turn);
                result
            }
            last => {
                self.parts.extend(last);
                all_of(self.parts)
            }
        };
        self.gate.open();
        result
    }
}

impl Part {
    /// Whether whoever waits for it can do it alone, and have nothing done in the background.
    fn is_simple(&self) -> bool {
        match &self.deeds[..] {
            [_] => true,
            [one, other] => one.goes_with(other),
            _ => false,
        }
    }

    /// Does what is simple.
    fn carry_out(&mut self) -> Result<()> {
        let mut deeds = mem::take(&mut self.deeds).into_iter();
        let Some(one) = deeds.next() else { return Ok(()) };
        noting(&self.comm, || one.carry_out(deeds.next(), &self.comm.at_work()?.group))
    }

    /// Begins all of its calls, or as many as can be.
    fn begin(&mut self, turn: &Turn) -> (Vec<Begun>, Result<()>) {
        let mut begun = Vec::new();
        let deeds = mem::take(&mut self.deeds);
        let result = noting(&self.comm, || {
            let hold = turn.share();
            let group = self.comm.at_work()?.group;
            for deed in deeds {
                let work = deed.begin(&group)?;
                work.keep(&hold);
                begun.push(work);
            }
            Ok(())
        });
        (begun, result)
    }
}

/// Carries out calls of several communicators, or several of one, all at once. None begins before the turns of all
/// have come, and each has ended when it is done, whoever is waited for: an abort of one does not wait for another.
fn all_of(parts: Vec<(Part, Turn)>) -> Result<()> {
    parts.iter().for_each(|(_, turn)| turn.come());
    let mut result = Ok(());
    let mut all = Vec::new();
    for (mut part, turn) in parts {
        let (begun, made) = part.begin(&turn);
        result = result.and(made);
        all.push((part, turn, begun));
    }
    for (part, turn, begun) in all {
        for work in begun {
            result = result.and(noting(&part.comm, || work.finish()));
        }
        drop(turn);
    }
    result
}

/// Where streams wait while another carries out what is theirs, too.
#[derive(Default)]
struct Gate {
    state: Watched<(usize, bool)>,
}

impl Gate {
    /// Comes, and waits until it is done.
    fn hold(&self) {
        let mut state = self.state.lock();
        state.0 += 1;
        self.state.tell(state);
        let mut state = self.state.lock();
        while !state.1 {
            state = self.state.wait(state);
        }
    }

    /// Waits until so many have come.
    fn gather(&self, count: usize) {
        let mut state = self.state.lock();
        while state.0 < count {
            state = self.state.wait(state);
        }
    }

    /// It is done.
    fn open(&self) {
        let mut state = self.state.lock();
        state.1 = true;
        self.state.tell(state);
    }
}

/// The group of calls of this thread.
fn with_open<T>(body: impl FnOnce(&mut Open) -> T) -> T {
    OPEN.with(|open| body(&mut open.borrow_mut()))
}

thread_local! {
    /// It is never dropped, for calls may come from where a thread ends; and outside of groups there is nothing in it.
    static OPEN: ManuallyDrop<RefCell<Open>> =
        const { ManuallyDrop::new(RefCell::new(Open::NONE)) };
}
