//! How communicators come into being: at the call, in the background, or when a group of calls ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::batch;
use crate::comm::{Bond, Communicator};
use crate::config::Settings;
use crate::failure::{Failure, Result, catch};
use crate::raw::{Handle, Out};
use crate::turns::Turn;

/// A communicator that is to come into being.
pub(crate) struct Birth {
    /// None for a rank that has its part in making others, but is in none itself.
    comm: Option<Arc<Communicator>>,
    /// The communicator that it comes of, whose calls before it are done first.
    pub(crate) parent: Option<Arc<Communicator>>,
    make: Make,
    blocking: bool,
    /// Whether it is about the program's memory, so that an abort waits for it. It does not for others: ranks that
    /// meet anew do so until all have come, or it is too late.
    is_use: bool,
    /// Whether it ends something that calls before it may be about.
    pub(crate) is_end: bool,
}

/// Meets the others.
type Make = Box<dyn FnOnce() -> Result<Option<Bond>> + Send>;

/// A birth that has its place among the calls of the communicator that it comes of.
pub(crate) struct Due {
    birth: Birth,
    turn: Option<Turn>,
}

impl Birth {
    /// One that comes of no other.
    pub(crate) fn new(
        comm: Arc<Communicator>,
        make: impl FnOnce() -> Result<Bond> + Send + 'static,
    ) -> Self {
        let blocking = comm.settings.blocking;
        let make: Make = Box::new(move || make().map(Some));
        Self { comm: Some(comm), parent: None, make, blocking, is_use: false, is_end: false }
    }

    /// One that comes of another, if this rank is in it.
    pub(crate) fn of(
        parent: Arc<Communicator>,
        comm: Option<Arc<Communicator>>,
        settings: &Settings,
        make: impl FnOnce() -> Result<Option<Bond>> + Send + 'static,
    ) -> Self {
        let (blocking, make) = (settings.blocking, Box::new(make));
        Self { comm, parent: Some(parent), make, blocking, is_use: false, is_end: false }
    }

    /// Something that comes of a communicator and is none: a window.
    pub(crate) fn of_memory(
        parent: Arc<Communicator>,
        make: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Self {
        let blocking = parent.settings.blocking;
        let make: Make = Box::new(move || make().map(|()| None));
        Self { comm: None, parent: Some(parent), make, blocking, is_use: true, is_end: false }
    }

    /// Its end.
    pub(crate) fn end_of_memory(
        parent: Arc<Communicator>,
        make: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Self {
        Self { is_end: true, ..Self::of_memory(parent, make) }
    }

    /// Whether whoever asks for it waits.
    pub(crate) fn is_blocking(&self) -> bool {
        self.blocking
    }

    /// It does not come into being.
    pub(crate) fn call_off(self, why: &Failure) {
        if let Some(comm) = self.comm {
            // Whoever asks for it is told by the group of calls.
            let _ = comm.form(Err(why.clone()));
        }
    }

    /// Gives it its place.
    pub(crate) fn due(self) -> Due {
        self.comm.iter().for_each(|comm| comm.begin_to_form());
        let turn = self.parent.as_ref().map(|parent| parent.turns.take());
        if let Some(parent) = self.parent.as_ref().filter(|_| !self.blocking) {
            parent.begin_birth();
        }
        Due { birth: self, turn }
    }
}

impl Due {
    /// Whether whoever asks for it waits.
    pub(crate) fn is_blocking(&self) -> bool {
        self.birth.blocking
    }

    /// Meets the others, when its turn has come.
    ///
    /// # Errors
    /// Why they have not met, which the communicator knows, too.
    pub(crate) fn carry_out(self) -> Result<()> {
        let Self { birth: Birth { comm, make, is_use, .. }, mut turn } = self;
        match &mut turn {
            Some(turn) if is_use => turn.begin(),
            Some(turn) => turn.come(),
            None => {}
        }
        let met = catch(make);
        drop(turn);
        match (comm, met) {
            (Some(comm), Ok(Some(bond))) => comm.form(Ok(bond)),
            (Some(comm), Ok(None)) => {
                comm.form(Err(Failure::usage("this rank is in no new communicator")))
            }
            (Some(comm), Err(failure)) => comm.form(Err(failure)),
            (None, met) => met.map(drop),
        }
    }

    /// As [`carry_out`](Self::carry_out), in the background.
    fn carry_out_apart(self) {
        let (parent, is_known) = (self.birth.parent.clone(), self.birth.comm.is_some());
        let met = self.carry_out();
        if let Some(parent) = parent {
            // What came into being knows itself why it did not.
            parent.end_birth(met.err().as_ref().filter(|_| !is_known));
        }
    }

    /// It does not come into being, though it has its place.
    fn call_off(self, why: &Failure) {
        if let Some(parent) = self.birth.parent.as_ref().filter(|_| !self.birth.blocking) {
            parent.end_birth(None);
        }
        self.birth.call_off(why);
    }
}

/// Meets the others, of each of them at once. Whether or not some fail, all are waited for.
///
/// # Errors
/// As [`Due::carry_out`], or when the system does not give as many threads as that takes.
pub(crate) fn carry_out_all(mut dues: Vec<Due>) -> Result<()> {
    let Some(mine) = dues.pop() else { return Ok(()) };
    thread::scope(|scope| {
        let start = |due: Receiver<Due>| {
            let body = move || due.recv().map_or(Ok(()), Due::carry_out);
            thread::Builder::new().spawn_scoped(scope, body)
        };
        match hand_out(dues, start) {
            Ok(others) => others.into_iter().fold(mine.carry_out(), |result, other| {
                let other = other.join().unwrap_or_else(|_| Err(Failure::usage("it has panicked")));
                result.and(other)
            }),
            Err(failure) => {
                mine.call_off(&failure);
                Err(failure)
            }
        }
    })
}

/// Meets the others in the background, of each of them at once.
///
/// # Errors
/// That it goes on; or that the system does not give as many threads as that takes, which the communicators know, too.
pub(crate) fn carry_out_all_apart(dues: Vec<Due>) -> Result<()> {
    let start = |due: Receiver<Due>| {
        let body = move || due.recv().into_iter().for_each(Due::carry_out_apart);
        thread::Builder::new().name("consort-meeting".to_owned()).spawn(body)
    };
    hand_out(dues, start)?;
    Err(Failure::in_progress())
}

/// Gives each of them to a thread that was started for it. They may be ranks that wait for each other, so none begins
/// before there is a thread for every one.
///
/// # Errors
/// When the system gives no more threads. None of them comes into being then.
fn hand_out<T>(
    dues: Vec<Due>,
    start: impl FnMut(Receiver<Due>) -> io::Result<T>,
) -> Result<Vec<T>> {
    let (ways, ends): (Vec<_>, Vec<_>) = dues.iter().map(|_| mpsc::channel()).unzip();
    match ends.into_iter().map(start).collect() {
        Ok(threads) => {
            for (way, due) in ways.into_iter().zip(dues) {
                way.send(due).expect("the thread waits for it");
            }
            Ok(threads)
        }
        Err(error) => {
            let failure = Failure::system(format!(
                "there is no thread to meet in: {error}; raise the limits on threads and on memory, or have fewer ranks in \
                 this process"
            ));
            dues.into_iter().for_each(|due| due.call_off(&failure));
            Err(failure)
        }
    }
}

/// Brings a communicator into being, and tells C what it is called, which it may use when this, the group
/// of calls that this is in, or the background is done with it.
///
/// # Errors
/// Why it failed; C is told `NULL` then. That it goes on in the background.
pub(crate) fn bring(out: &Out<Handle>, name: &str, birth: Birth) -> Result<()> {
    let comm = birth.comm.clone();
    out.set(name, comm.as_ref().map_or(Handle::NULL, |comm| comm.handle()))?;
    let result = batch::birth(birth);
    if let (Err(failure), Some(comm)) = (&result, comm)
        && *failure != Failure::in_progress()
    {
        comm.forget();
        out.set(name, Handle::NULL)?;
    }
    result
}
