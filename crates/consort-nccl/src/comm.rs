//! Communicators.

mod ops;
mod registrations;
mod windows;

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use consort::{Dtype, Group};
use consort_sys::origin::Origin;

use crate::config::Settings;
use crate::failure::{Failure, Result, catch};
use crate::lock;
use crate::membership::Membership;
use crate::memory::Region;
use crate::raw::Handle;
use crate::status::Status;
use crate::turns::Turns;
use crate::window::{self, Service};
pub(crate) use ops::{Combination, Own};

/// A rank's hold on a group, as C knows it.
#[derive(Debug)]
pub(crate) struct Communicator {
    number: usize,
    /// Whose it is: a child that was forked from it has none of its threads.
    origin: Origin,
    pub(crate) settings: Settings,
    /// Its calls, in their order.
    pub(crate) turns: Arc<Turns>,
    /// What the program says that it runs on, if it does.
    device: Option<c_int>,
    state: Mutex<State>,
    changed: Condvar,
    /// The program's own ways to combine numbers, by their codes.
    ops: Mutex<HashMap<c_int, (Dtype, Own)>>,
    /// What the program has registered, by its handles.
    registered: Mutex<BTreeMap<usize, Region>>,
    /// Who writes to its windows, once there is one.
    service: Mutex<Option<Arc<Service>>>,
    /// How often it was made smaller, by who was left out.
    shrinks: Mutex<HashMap<Vec<u32>, u64>>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// There once it is ready.
    bond: Option<Bond>,
    /// The first thing that went wrong.
    failure: Option<Failure>,
    /// How many calls of it go on in the background that come of no stream: what is made of it.
    births: usize,
}

/// What ties it to the other ranks. The group is let go of before the membership.
#[derive(Clone, Debug)]
pub(crate) struct Bond {
    pub(crate) group: Group,
    pub(crate) membership: Arc<Membership>,
}

/// How far a communicator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The group of calls that it is asked for in has not ended.
    Asked,
    /// The ranks meet.
    Forming,
    /// It can be used.
    Ready,
    /// The last calls are carried out.
    Finalizing,
    /// It can only be destroyed.
    Finalized,
    /// It can only be made smaller, parted or destroyed.
    Revoked,
    /// The ranks have not met.
    Failed,
    /// It was given up.
    Aborted,
    /// The program has let go of it.
    Destroyed,
}

impl Communicator {
    /// One whose ranks are to meet.
    pub(crate) fn asked_for(settings: Settings, device: Option<c_int>) -> Arc<Self> {
        let mut comms = lock(&COMMS);
        comms.last += 1;
        let state = State { stage: Stage::Asked, bond: None, failure: None, births: 0 };
        let comm = Arc::new(Self {
            number: comms.last * STEP,
            origin: Origin::here(),
            settings,
            turns: Arc::default(),
            device,
            state: Mutex::new(state),
            changed: Condvar::new(),
            ops: Mutex::default(),
            registered: Mutex::default(),
            service: Mutex::default(),
            shrinks: Mutex::default(),
        });
        comms.all.insert(comm.number, comm.clone());
        comm
    }

    /// The one that C calls so.
    ///
    /// # Errors
    /// When there is none, and in a forked child of the process whose it is.
    pub(crate) fn find(handle: Handle) -> Result<Arc<Self>> {
        let comm = Self::any(handle)?;
        if comm.origin.is_here() { Ok(comm) } else { Err(Failure::forked("comm")) }
    }

    /// As [`take`](Self::take), for whoever then waits until the ranks have met.
    ///
    /// # Errors
    /// When there is none; or the ranks do not meet before a group of calls has ended, which may be the caller's. C can
    /// find it then as before.
    pub(crate) fn take_issued(handle: Handle) -> Result<Option<Arc<Self>>> {
        let comm = Self::any(handle)?;
        if comm.origin.is_here() {
            let state = lock(&comm.state);
            if state.stage == Stage::Asked {
                return Err(comm.why_not(&state));
            }
        }
        Self::take(handle)
    }

    /// As [`find`](Self::find), and C cannot find it any more. None in a forked child, which has nothing to end.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take(handle: Handle) -> Result<Option<Arc<Self>>> {
        let comm = Self::any(handle)?;
        comm.forget();
        if comm.origin.is_here() {
            return Ok(Some(comm));
        }
        // What is in it is its parent's, and would wait for its threads.
        std::mem::forget(comm);
        Ok(None)
    }

    fn any(handle: Handle) -> Result<Arc<Self>> {
        if handle.is_null() {
            return Err(Failure::argument("comm is NULL"));
        }
        lock(&COMMS).all.get(&handle.number()).cloned().ok_or_else(|| {
            let number = handle.number();
            Failure::argument(format!(
                "comm is {number:#x}, which is none, or was destroyed before"
            ))
        })
    }

    /// What C calls it.
    pub(crate) fn handle(&self) -> Handle {
        Handle::new(self.number)
    }

    /// From here on C cannot find it any more.
    pub(crate) fn forget(&self) {
        lock(&COMMS).all.remove(&self.number);
    }

    /// The ranks begin to meet.
    pub(crate) fn begin_to_form(&self) {
        let mut state = lock(&self.state);
        if state.stage == Stage::Asked {
            state.stage = Stage::Forming;
        }
    }

    /// The ranks have met, or have not.
    ///
    /// # Errors
    /// Why they have not; also when it was aborted meanwhile.
    pub(crate) fn form(&self, met: Result<Bond>) -> Result<()> {
        let mut state = lock(&self.state);
        let result = match met {
            Ok(bond) if state.stage == Stage::Forming => {
                (state.stage, state.bond) = (Stage::Ready, Some(bond));
                Ok(())
            }
            Ok(bond) => {
                // It was aborted before, and has met the others all the same: so they hear of that.
                drop(state);
                bond.group.abort(ABORTED);
                return Err(Failure::usage("the communicator was aborted before it was ready"));
            }
            Err(failure) => {
                if let Stage::Asked | Stage::Forming = state.stage {
                    state.stage = Stage::Failed;
                }
                state.failure.get_or_insert(failure.clone());
                Err(failure)
            }
        };
        drop(state);
        self.changed.notify_all();
        result
    }

    /// What ties it to the other ranks, for calls.
    ///
    /// # Errors
    /// When it cannot be used, or not yet.
    pub(crate) fn bond(&self) -> Result<Bond> {
        Ok(self.bond_in(&[Stage::Ready])?.0)
    }

    /// As [`bond`](Self::bond), for calls that were made already: those it is finalized after are carried out.
    ///
    /// # Errors
    /// When it has ended meanwhile.
    pub(crate) fn at_work(&self) -> Result<Bond> {
        Ok(self.bond_in(&[Stage::Ready, Stage::Finalizing])?.0)
    }

    /// As [`bond`](Self::bond), for what is to be made of it: also when it was revoked.
    ///
    /// # Errors
    /// As [`bond`](Self::bond).
    pub(crate) fn kinship(&self) -> Result<Bond> {
        Ok(self.bond_in(&[Stage::Ready, Stage::Revoked])?.0)
    }

    /// As [`at_work`](Self::at_work), for what is made of it: also when it was revoked. Says whether it was.
    ///
    /// # Errors
    /// As [`at_work`](Self::at_work).
    pub(crate) fn kinship_at_work(&self) -> Result<(Bond, bool)> {
        let stages = [Stage::Ready, Stage::Finalizing, Stage::Revoked];
        let (bond, stage) = self.bond_in(&stages)?;
        Ok((bond, stage == Stage::Revoked))
    }

    /// As [`bond`](Self::bond), also in other stages.
    fn bond_in(&self, stages: &[Stage]) -> Result<(Bond, Stage)> {
        let state = lock(&self.state);
        match (state.stage, &state.bond) {
            (stage, Some(bond)) if stages.contains(&stage) => Ok((bond.clone(), stage)),
            _ => Err(self.why_not(&state)),
        }
    }

    /// Who it is, whatever has become of it since it was ready.
    ///
    /// # Errors
    /// When it was never ready, or was destroyed.
    pub(crate) fn known(&self) -> Result<Bond> {
        let state = lock(&self.state);
        state.bond.clone().ok_or_else(|| self.why_not(&state))
    }

    fn why_not(&self, state: &State) -> Failure {
        let name = self.name();
        match (state.stage, &state.failure) {
            (Stage::Asked, _) => Failure::usage(format!(
                "{name} is asked for in a group of calls that has not ended: call ncclGroupEnd first, in the thread \
                 that has begun it, or give it up with ncclCommAbort"
            )),
            (Stage::Forming, _) => Failure::argument(format!(
                "{name} is not ready: wait until ncclCommGetAsyncError does not say ncclInProgress any more"
            )),
            (Stage::Finalizing | Stage::Finalized, _) => {
                Failure::usage(format!("{name} was finalized: it can only be destroyed"))
            }
            (Stage::Revoked, _) => Failure::usage(format!(
                "{name} was revoked: it can only be shrunk, split or destroyed"
            )),
            (Stage::Failed, Some(failure)) => failure.clone(),
            (Stage::Destroyed, _) => {
                Failure::usage(format!("{name} was destroyed, though it had calls to make"))
            }
            _ => Failure::usage(format!("{name} was aborted")),
        }
    }

    /// What it is called in texts.
    pub(crate) fn name(&self) -> String {
        match &self.settings.name {
            Some(name) => format!("communicator {name:?}"),
            None => format!("communicator {:#x}", self.number),
        }
    }

    /// The device that it is said to run on.
    pub(crate) fn device(&self) -> Result<c_int> {
        let bond = self.known()?;
        Ok(self.device.unwrap_or(bond.group.local_rank() as c_int))
    }

    /// Keeps what went wrong, if it is the first that did.
    pub(crate) fn note(&self, failure: &Failure) {
        lock(&self.state).failure.get_or_insert(failure.clone());
    }

    /// What `ncclCommGetAsyncError` says, with its text.
    pub(crate) fn condition(&self) -> Failure {
        let state = lock(&self.state);
        if let Some(failure) = &state.failure {
            return failure.clone();
        }
        if let Stage::Asked | Stage::Forming | Stage::Finalizing = state.stage {
            return Failure::in_progress();
        }
        if state.births > 0 && state.stage == Stage::Ready {
            return Failure::in_progress();
        }
        let (stage, bond) = (state.stage, state.bond.clone());
        drop(state);
        let error = bond.filter(|_| stage == Stage::Ready).and_then(|bond| bond.group.error());
        match error.map(Failure::from) {
            Some(failure) => {
                self.note(&failure);
                failure
            }
            None => Failure { status: Status::SUCCESS, text: String::new() },
        }
    }

    /// Takes notice that something is made of it in the background.
    pub(crate) fn begin_birth(&self) {
        lock(&self.state).births += 1;
    }

    /// Takes notice that it was made, or why it was not, if nobody else would know.
    pub(crate) fn end_birth(&self, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            self.note(failure);
        }
        lock(&self.state).births -= 1;
    }

    /// The text of the first thing that went wrong.
    pub(crate) fn complaint(&self) -> Option<String> {
        lock(&self.state).failure.as_ref().map(|failure| failure.text.clone())
    }

    /// Waits until the ranks have met, or have not.
    pub(crate) fn settle(&self) {
        let mut state = lock(&self.state);
        while state.stage == Stage::Forming {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends it for all ranks. When it returns nothing of it uses the program's memory any more; it waits for no
    /// call that has not begun, nor for ranks that meet anew.
    pub(crate) fn abort(&self) {
        let mut state = lock(&self.state);
        state.stage = Stage::Aborted;
        let bond = state.bond.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(bond) = bond {
            bond.group.abort(ABORTED);
        }
        self.end_service(ABORTED);
        self.turns.end();
    }

    /// Ends what is on its way, and keeps who the ranks are.
    ///
    /// # Errors
    /// When there is nothing that could be kept.
    pub(crate) fn revoke(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let bond = match (state.stage, &state.bond) {
            (Stage::Ready, Some(bond)) => bond.clone(),
            (Stage::Revoked, Some(_)) => return Ok(()),
            _ => return Err(self.why_not(&state)),
        };
        // Under the same lock: one that is aborted meanwhile stays so.
        state.stage = Stage::Revoked;
        drop(state);
        bond.group.abort(REVOKED);
        self.end_service(REVOKED);
        Ok(())
    }

    /// Takes no more calls.
    ///
    /// # Errors
    /// When it takes none anyway.
    pub(crate) fn begin_to_finalize(&self) -> Result<()> {
        let mut state = lock(&self.state);
        match state.stage {
            Stage::Ready => {
                state.stage = Stage::Finalizing;
                Ok(())
            }
            _ => Err(self.why_not(&state)),
        }
    }

    /// Waits for its last calls.
    ///
    /// # Errors
    /// The first thing that went wrong with it.
    pub(crate) fn finalize(&self) -> Result<()> {
        self.turns.drain();
        let mut state = lock(&self.state);
        if state.stage == Stage::Finalizing {
            state.stage = Stage::Finalized;
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// Waits for its last calls, and lets go of the other ranks.
    pub(crate) fn leave(&self) {
        self.settle();
        self.turns.drain();
        let holds = window::forget_all_of(self.number);
        let service = lock(&self.service).take();
        drop(service);
        // Nobody writes to windows any more.
        drop(holds);
        let mut state = lock(&self.state);
        if state.stage != Stage::Aborted {
            state.stage = Stage::Destroyed;
        }
        let bond = state.bond.take();
        // To leave may take a while.
        drop(state);
        drop(bond);
    }

    /// Counts that a smaller one without these ranks is made. Says how often that was.
    pub(crate) fn count_shrink(&self, without: &[u32]) -> u64 {
        let mut shrinks = lock(&self.shrinks);
        let count = shrinks.entry(without.to_vec()).or_default();
        *count += 1;
        *count
    }

    /// Has it use another group for those that come of it.
    pub(crate) fn succeed(&self, bond: Bond) {
        lock(&self.state).bond = Some(bond);
    }
}

/// Whatever happens in `body` is the communicator's failure too.
pub(crate) fn noting<T>(comm: &Communicator, body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch(body).inspect_err(|failure| comm.note(failure))
}

/// Keeps communicators as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new((lock(&COMMS), ops::hold()))
}

/// All that C knows of.
struct Comms {
    all: BTreeMap<usize, Arc<Communicator>>,
    last: usize,
    /// How often memory was registered, with whichever of them.
    registered: usize,
}

static COMMS: Mutex<Comms> = Mutex::new(Comms { all: BTreeMap::new(), last: 0, registered: 0 });
/// Handles look like addresses, and are none that anybody has.
const STEP: usize = 0x10;
const ABORTED: &str = "ncclCommAbort";
/// Why the ranks of a communicator that was revoked are told that it has ended.
pub(crate) const REVOKED: &str = "ncclCommRevoke";
