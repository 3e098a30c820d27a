//! Calls that are carried out together.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::code::Code;
use super::comm::Inner;
use super::error::{Error, Result};
use super::feature::Feature;
use super::gate::{Fate, Gate, Pass};
use super::library::Library;
use super::table::{Answer, Lease};
use super::version::BUILT_AGAINST;

/// Makes one group of all calls that `body` makes on this thread: they are carried out together when it returns,
/// so that several messages, or the calls of several communicators of this thread, do not wait for each other.
///
/// Groups within groups are part of the outermost. A group always ends, also when `body` fails or panics: what was
/// called until then is carried out, for NCCL cannot take it back.
///
/// ```no_run
/// use consort::nccl::{self, Comm, Library, Stream};
/// use consort::Dtype;
/// # fn halves(comm: &Comm, mine: consort::Source<'_>, theirs: consort::Target<'_>) -> nccl::Result<()> {
/// let peer = 1 - comm.rank();
/// nccl::group(comm.library(), || {
///     // SAFETY: both are left alone until the stream is done.
///     unsafe { comm.send(mine, Dtype::F32, peer, Stream::DEFAULT) }?;
///     // SAFETY: as above.
///     unsafe { comm.recv(theirs, Dtype::F32, peer, Stream::DEFAULT) }
/// })
/// # }
/// ```
///
/// # Errors
/// That of `body`; or else why the group could not be carried out.
pub fn group<T>(library: Library, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let scope = Scope::open(library, false)?;
    let value = body();
    let ended = scope.close();
    let value = value?;
    ended.map(|_| value)
}

/// How many microseconds the calls that `body` makes would take as a group, as NCCL estimates it. They are not
/// carried out. Since 2.22.
///
/// # Errors
/// As [`group`]; and when a group is open on this thread.
pub fn simulate(library: Library, body: impl FnOnce() -> Result<()>) -> Result<f32> {
    let function = "ncclGroupSimulateEnd";
    refuse(library, function)?;
    if !library.has(Feature::Simulate) {
        let needed = Feature::Simulate.since();
        return Err(Error::NeedsVersion { function, needed, found: library.version() });
    }
    let scope = Scope::open(library, true)?;
    let body = body();
    let ended = scope.close();
    body.and(ended)
}

/// A group of this thread that is open.
#[derive(Debug)]
struct Scope {
    library: Library,
    /// Whether it is estimated, and not carried out.
    is_estimate: bool,
    is_open: bool,
}

impl Scope {
    fn open(library: Library, is_estimate: bool) -> Result<Self> {
        library.succeed("ncclGroupStart", library.table().start_group(), None)?;
        with_open(|all| match all.iter_mut().find(|open| open.library == library) {
            Some(open) => open.depth += 1,
            None => all.push(Open {
                library,
                depth: 1,
                kept: Vec::new(),
                leases: Vec::new(),
                doomed: Vec::new(),
            }),
        });
        Ok(Self { library, is_estimate, is_open: true })
    }

    /// Carries it out, if it is the outermost, or says how many microseconds it would take.
    fn close(mut self) -> Result<f32> {
        self.end()
    }

    fn end(&mut self) -> Result<f32> {
        self.is_open = false;
        // Others may abort a communicator of the group while its end waits for ranks that do not come.
        let gates = gates(self.library);
        for gate in &gates {
            // NCCL has to end the group, whoever waits for that to close the gate.
            let _ = gate.step_in();
        }
        let answer = self.call_end();
        let are_out: Vec<_> = gates.iter().map(|gate| gate.step_out()).collect();
        let open = depart(self.library);
        let (function, answer) = answer;
        if let Some(open) = &open {
            open.must_be_well(function, &are_out)?;
        }
        let rank = open.as_ref().and_then(Open::only_rank);
        let (code, time) = self.library.succeed(function, answer, rank)?;
        for (inner, pass) in open.iter().flat_map(|open| &open.kept) {
            if code == Code::IN_PROGRESS {
                inner.settle(function, pass, inner.limit())?;
            }
        }
        Ok(time)
    }

    /// What NCCL says, and of which function.
    fn call_end(&self) -> (&'static str, Answer<(Code, f32)>) {
        let table = self.library.table();
        match self.is_estimate {
            true => {
                let version = self.library.version().min(BUILT_AGAINST);
                ("ncclGroupSimulateEnd", table.simulate_group_end(version))
            }
            false => ("ncclGroupEnd", table.end_group().map(|code| (code, 0.0))),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.is_open
            && let Err(error) = self.end()
        {
            tracing::warn!("a group that was left early: {error}");
        }
    }
}

/// The outermost group of this thread and a library.
struct Open {
    library: Library,
    depth: usize,
    /// Communicators that calls were made of, which have to live until its end.
    kept: Vec<(Arc<Inner>, Pass)>,
    /// Memory that was to be forgotten in it, and is after it.
    leases: Vec<(Lease, Arc<Inner>)>,
    /// Communicators that were dropped in it, and end with it.
    doomed: Vec<Arc<Inner>>,
}

impl Open {
    /// Refuses to go on with what was aborted at its end, which the passes were told in their order.
    fn must_be_well(&self, function: &'static str, told: &[Result<(), Fate>]) -> Result<()> {
        self.kept
            .iter()
            .zip(told)
            .try_for_each(|((inner, _), told)| told.map_err(|fate| inner.ended(function, fate)))
    }

    fn only_rank(&self) -> Option<(u32, u32)> {
        match &self.kept[..] {
            [(inner, _), rest @ ..] if rest.iter().all(|(other, _)| Arc::ptr_eq(inner, other)) => {
                Some(inner.place())
            }
            _ => None,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.kept.clear();
        for (lease, inner) in self.leases.drain(..) {
            inner.forget_or_warn(lease);
        }
        self.doomed.drain(..).for_each(|inner| inner.end());
    }
}

/// The gates of the communicators in the group, if it is the outermost.
fn gates(library: Library) -> Vec<Arc<Gate>> {
    with_open(|all| {
        let open = all.iter().find(|open| open.library == library && open.depth == 1);
        open.map_or(Vec::new(), |open| {
            open.kept.iter().map(|(inner, _)| inner.gate().clone()).collect()
        })
    })
}

/// Whether a group is open on this thread.
pub(super) fn is_open(library: Library) -> bool {
    with_open(|all| all.iter().any(|open| open.library == library))
}

/// Goes out of one group. What it was if that was the outermost.
fn depart(library: Library) -> Option<Open> {
    with_open(|all| {
        let at = all.iter().position(|open| open.library == library)?;
        all[at].depth -= 1;
        let ended = (all[at].depth == 0).then(|| all.swap_remove(at));
        // What is never dropped keeps no memory.
        if all.is_empty() {
            *all = Vec::new();
        }
        ended
    })
}

/// Whether a call of this communicator may be made in the group that is open, if one is.
pub(super) fn admit(inner: &Inner, function: &'static str) -> Result<()> {
    with_open(|all| {
        let open = all.iter().find(|open| open.library == inner.library());
        match open.and_then(|open| open.kept.first()) {
            Some((other, _)) if other.is_blocking() != inner.is_blocking() => Err(Error::argument(
                function,
                "blocking and non-blocking communicators cannot be in one group; give all of them the same \
                 Config::blocking",
            )),
            _ => Ok(()),
        }
    })
}

/// Keeps a pass until the end of the group that is open, or gives it back if none is.
pub(super) fn keep(inner: &Arc<Inner>, pass: Pass) -> Option<Pass> {
    with_open(|all| match all.iter_mut().find(|open| open.library == inner.library()) {
        Some(open) => {
            open.kept.push((inner.clone(), pass));
            None
        }
        None => Some(pass),
    })
}

/// Leaves a communicator that was dropped to the end of the group that is open, if one is. Says whether.
pub(super) fn doom(inner: &Arc<Inner>) -> bool {
    with_open(|all| {
        let open = all.iter_mut().find(|open| open.library == inner.library());
        open.map(|open| open.doomed.push(inner.clone())).is_some()
    })
}

/// Keeps memory known until the end of the group that is open, or gives it back if none is.
pub(super) fn postpone(inner: &Arc<Inner>, lease: Lease) -> Option<Lease> {
    with_open(|all| match all.iter_mut().find(|open| open.library == inner.library()) {
        Some(open) => {
            open.leases.push((lease, inner.clone()));
            None
        }
        None => Some(lease),
    })
}

/// Refuses what cannot be part of a group, when one is open.
pub(super) fn refuse(library: Library, function: &'static str) -> Result<()> {
    match is_open(library) {
        true => Err(Error::argument(
            function,
            "a group is open on this thread; call it after the group",
        )),
        false => Ok(()),
    }
}

fn with_open<T>(body: impl FnOnce(&mut Vec<Open>) -> T) -> T {
    OPEN.with(|all| body(&mut all.borrow_mut()))
}

thread_local! {
    /// One for each library. It is never dropped, for communicators may be where a thread ends; and outside of groups
    /// there is nothing in it.
    static OPEN: ManuallyDrop<RefCell<Vec<Open>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}
