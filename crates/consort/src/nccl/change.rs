//! Communicators that are made of others, and what can be done to one that has failed.

use super::code::Code;
use super::comm::Comm;
use super::config::{Config, Image};
use super::error::{Error, Result};
use super::gate::Fate;
use super::group;
use super::id::{Bootstrap, UniqueId, close};
use super::library::Library;
use super::making::{Manner, Seat, needed_image};
use super::table::{Answer, Handle, Made, Slot};

/// What happens to what a communicator has in progress when it is shrunk.
///
/// ```no_run
/// use consort::nccl::{Comm, Result, Shrink};
///
/// /// Goes on without ranks that have died: all that are left call this, with the same list.
/// fn without(comm: Comm, dead: &[u32]) -> Result<Comm> {
///     let rest = comm.shrink(dead, Shrink::Abort, None)?;
///     // Nothing of it will ever be done.
///     comm.abort()?;
///     Ok(rest)
/// }
/// # let _ = without;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrink {
    /// Nothing: all of it has been done.
    #[default]
    WhenIdle,
    /// It is stopped: for when ranks have died in the middle of it.
    Abort,
}

/// What of a device's memory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryStat {
    /// How many bytes can be suspended.
    Suspendable,
    /// 1 while they are suspended, 0 otherwise.
    IsSuspended,
    /// How many bytes cannot be.
    Persistent,
    /// How many bytes there are.
    Total,
}

/// # Other communicators
impl Comm {
    /// Makes a communicator of all ranks that give the same color, in the order of their keys, and of their ranks
    /// where keys are equal. All ranks call it. A rank that gives no color becomes part of none, and gets none. The
    /// new one is configured as this one, unless said. Since 2.18.
    ///
    /// # Errors
    /// When the others do not come in time, or NCCL fails.
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        config: Option<&Config>,
    ) -> Result<Option<Self>> {
        let function = "ncclCommSplit";
        let number = match color.map(i32::try_from).transpose() {
            Ok(number) => number.unwrap_or(NO_COLOR),
            Err(_) => return Err(Error::argument(function, "a color is below 2³¹")),
        };
        let child =
            self.child(function, config, false, |handle, image| handle.split(number, key, image))?;
        match (child, color) {
            (Some(child), _) => Ok(Some(child)),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(self.seat(function).nothing()),
        }
    }

    /// Makes a communicator of all ranks but some, renumbered in their order. Those that stay call it, those that are
    /// excluded do not. The new one is configured as this one, unless said. Since 2.27.
    ///
    /// # Errors
    /// When the list cannot be, when the others do not come in time, or NCCL fails.
    pub fn shrink(&self, excluded: &[u32], how: Shrink, config: Option<&Config>) -> Result<Self> {
        let function = "ncclCommShrink";
        let (rank, world) = (self.rank(), self.world());
        for (at, other) in excluded.iter().enumerate() {
            let reason = match other {
                other if *other >= world => "it is no rank",
                other if *other == rank => "excluded ranks do not call this",
                other if excluded[..at].contains(other) => "it is there twice",
                _ => continue,
            };
            return Err(Error::argument(
                function,
                format!("rank {rank} of {world} excludes {other}: {reason}"),
            ));
        }
        if excluded.is_empty() {
            return Err(Error::argument(
                function,
                "nobody is excluded; to copy a communicator, split it",
            ));
        }
        let excluded: Vec<i32> = excluded.iter().map(|rank| *rank as i32).collect();
        let stops = how == Shrink::Abort;
        if stops {
            self.inner().disturb();
        }
        let child = self.child(function, config, stops, |handle, image| {
            handle.shrink(&excluded, image, i32::from(stops))
        })?;
        child.ok_or_else(|| self.seat(function).nothing())
    }

    /// Makes an id with which others can join this communicator when it [grows](Self::grow). One rank makes it, and it
    /// is good for once. Since 2.29.2.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn grow_id(&self) -> Result<Bootstrap> {
        let function = "ncclCommGetUniqueId";
        self.inner().must_be_alive(function)?;
        let (_, id) = self.inner().at_once(function, Handle::unique_id)?;
        Ok(Bootstrap::of(id))
    }

    /// Makes a communicator of all ranks of this one and of others that [join](Self::join), which are `world` then. All
    /// ranks call it; the one that made the id gives it. Since 2.29.2.
    ///
    /// # Errors
    /// When there are not more ranks than before, when the others do not come in time, or NCCL fails.
    pub fn grow(&self, world: u32, id: Option<&UniqueId>, config: Option<&Config>) -> Result<Self> {
        let function = "ncclCommGrow";
        let number = i32::try_from(world).ok().filter(|_| world > self.world());
        let Some(number) = number else {
            let reason =
                format!("{world} ranks are not more than the {} that there are", self.world());
            return Err(Error::argument(function, reason));
        };
        let raw = id.map(UniqueId::raw);
        let child = self.child(function, config, false, |handle, image| {
            handle.grow(number, raw.as_ref(), image)
        })?;
        id.map(close);
        child.ok_or_else(|| self.seat(function).nothing())
    }

    /// Becomes rank `rank` of a communicator that [grows](Self::grow) to `world` ranks. Since 2.29.2.
    ///
    /// # Errors
    /// As [`init_rank_with`](Self::init_rank_with).
    pub fn join(
        library: Library,
        world: u32,
        id: &UniqueId,
        rank: u32,
        config: &Config,
    ) -> Result<Self> {
        let function = "ncclCommGrow";
        let at = Seat::new(function, library, world, rank)?;
        group::refuse(library, function)?;
        let mut image = needed_image(library, config)?;
        let answer = library.table().join(at.world, &id.raw(), at.rank, &mut image);
        let comm = Self::made(at, Manner::new(config, Some(image)), answer)?;
        close(id);
        Ok(comm)
    }

    /// Stops what is in progress, on this rank. Nothing more can be issued then, but the communicator can be split,
    /// shrunk and destroyed. May be called while another thread waits in a call. Since 2.28.7.
    ///
    /// # Errors
    /// When it has ended, when it does not come to rest in time, or NCCL fails.
    pub fn revoke(&self) -> Result<()> {
        let function = "ncclCommRevoke";
        let inner = self.inner();
        group::refuse(inner.library(), function)?;
        let pass = inner.gate().watch().map_err(|fate| inner.ended(function, fate))?;
        let answer = pass.revoke();
        let code = inner.succeed(function, answer, &pass)?;
        inner.gate().mark(Fate::Revoked);
        match code {
            Code::IN_PROGRESS => inner.settle(function, &pass, inner.limit()),
            _ => Ok(()),
        }
    }

    /// Gives back memory of the device until it is [resumed](Self::resume); nothing can be issued meanwhile. All ranks
    /// do so. Since 2.29.7.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn suspend(&self) -> Result<()> {
        self.perform("ncclCommSuspend", Handle::suspend).map(drop)
    }

    /// Takes the memory again. All ranks do so. Since 2.29.7.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn resume(&self) -> Result<()> {
        self.perform("ncclCommResume", Handle::resume).map(drop)
    }

    /// How much memory of the device it has. Since 2.29.7.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn memory_stat(&self, which: MemoryStat) -> Result<u64> {
        let call = |handle: &Handle| handle.memory(which as i32);
        self.inner().at_once("ncclCommMemStats", call).map(|(_, value)| value)
    }

    /// Makes another communicator of this one, unless NCCL says that this rank is not to be part of it. If it
    /// `survives` a failure, it is no matter whether this one is well.
    fn child(
        &self,
        function: &'static str,
        config: Option<&Config>,
        survives: bool,
        call: impl FnOnce(&Handle, Option<&mut Image>) -> Answer<Made>,
    ) -> Result<Option<Self>> {
        let inner = self.inner();
        let library = inner.library();
        group::refuse(library, function)?;
        let mut image = config.map(|config| needed_image(library, config)).transpose()?;
        let pass = inner.enter(function)?;
        let called = pass.call(|handle| call(handle, image.as_mut()));
        let (made, pass) = called.map_err(|fate| inner.ended(function, fate))?;
        let (code, mut slot) = made.map_err(|absent| library.missing(absent))?;
        let pass = match pass {
            Ok(pass) => pass,
            Err(fate) => {
                end(slot.take());
                return Err(inner.ended(function, fate));
            }
        };
        let manner = match config {
            Some(config) => Manner::new(config, image),
            None => Manner::like(inner),
        };
        let state = match code {
            Code::SUCCESS => Ok(()),
            Code::IN_PROGRESS => inner.settle(function, &pass, manner.limit),
            code => Err(library.failure(function, code, Some(&pass), Some(inner.place()))),
        };
        let is_well = match &state {
            Err(Error::Failed(_)) => survives && code == Code::IN_PROGRESS,
            Err(_) => false,
            Ok(()) => true,
        };
        if is_well {
            slot.close();
        }
        match (slot.take(), is_well) {
            (Ok(handle), true) => Comm::ready(self.seat(function), manner, handle).map(Some),
            (made, false) => {
                end(made);
                state.map(|()| None)
            }
            (Err(_), true) => state.map(|()| None),
        }
    }

    fn seat(&self, function: &'static str) -> Seat {
        let (rank, world) = (self.rank() as i32, self.world() as i32);
        Seat { function, library: self.library(), world, rank }
    }
}

/// Ends what was made in vain.
fn end(made: Result<Handle, Slot>) {
    if let Ok(handle) = made {
        let _ = handle.abort();
    }
}

/// The color of a rank that becomes part of none.
const NO_COLOR: i32 = -1;
