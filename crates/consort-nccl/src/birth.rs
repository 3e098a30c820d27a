//! How communicators come into being: at the call, in the background, or when a group of calls ends.

use std::io;
use std::sync::Arc;
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
        Due { birth: self, turn }
    }
}

impl Due {
    /// Whether whoever asks for it waits.
    pub(crate) fn is_blocking(&self) -> bool {
        self.birth.blocking
    }

    /// What is to come into being.
    pub(crate) fn comm(&self) -> Option<Arc<Communicator>> {
        self.birth.comm.clone()
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

    /// Meets the others in the background.
    ///
    /// # Errors
    /// When the system gives no more threads; the communicator knows that, too.
    pub(crate) fn carry_out_apart(self) -> Result<()> {
        let (comm, parent) = (self.comm(), self.birth.parent.clone());
        if let Some(parent) = &parent {
            parent.begin_birth();
        }
        let (of, is_known) = (parent.clone(), comm.is_some());
        let body = move || {
            let met = self.carry_out();
            if let Some(parent) = of {
                // What came into being knows itself why it did not.
                parent.end_birth(met.err().as_ref().filter(|_| !is_known));
            }
        };
        match thread::Builder::new().name("consort-meeting".to_owned()).spawn(body) {
            Ok(_) => Ok(()),
            Err(error) => {
                if let Some(parent) = parent {
                    parent.end_birth(None);
                }
                no_thread(comm, &error)
            }
        }
    }
}

/// A communicator that cannot come into being, as there is no thread to meet the others in.
///
/// # Errors
/// Always: that.
pub(crate) fn no_thread(comm: Option<Arc<Communicator>>, error: &io::Error) -> Result<()> {
    let failure = Failure::system(format!("there is no thread to meet in: {error}"));
    comm.map_or(Err(failure.clone()), |comm| comm.form(Err(failure)))
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
