//! Who carries out a group's calls on the memory of devices.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use consort_sys::view::Space;

use super::{Group, Shared};
use crate::backend::{Backend, Capabilities, Nccl, no_messages};
use crate::engine::Lookout;
use crate::error::{Error, Result};
use crate::options::Engine;

/// An engine for calls on the memory of devices, if there is one. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    /// What came of the first call that needed one, or of saying which it is.
    engine: Arc<OnceLock<Result<Arc<dyn Backend>>>>,
    /// The same, if it is NCCL.
    nccl: Arc<OnceLock<Arc<Nccl>>>,
    /// Whoever has it is making one.
    making: Arc<Mutex<()>>,
    /// Where ranks come together to make one, while they do.
    meeting: Arc<Mutex<Option<Group>>>,
}

/// The time in which a group in which ranks make an engine ends with the group that it is for.
#[derive(Debug)]
pub(crate) struct EndsWithIt<'a>(&'a Devices);

impl Drop for EndsWithIt<'_> {
    fn drop(&mut self) {
        drop(self.0.meeting().take());
    }
}

impl Devices {
    /// The same engine, if there is one; otherwise room for another.
    pub(super) fn as_it_is(&self) -> Self {
        if self.get().is_some() { self.clone() } else { Self::default() }
    }

    fn get(&self) -> Option<&Arc<dyn Backend>> {
        self.engine.get()?.as_ref().ok()
    }

    /// The engine, which `make` makes if there is none. It is tried once.
    fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<Arc<dyn Backend>>,
    ) -> Result<&Arc<dyn Backend>> {
        if self.engine.get().is_none() {
            let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            if self.engine.get().is_none() {
                let _ = self.engine.set(make());
            }
        }
        self.engine.get().expect("it was set").as_ref().map_err(Clone::clone)
    }

    /// How many calls came in.
    pub(super) fn calls(&self) -> u64 {
        self.get().map_or(0, |engine| engine.calls())
    }

    /// Ends what it carries out, or that it is made.
    pub(super) fn abort(&self, reason: &str) {
        self.get().into_iter().for_each(|engine| engine.abort(reason));
        let meeting = self.meeting().clone();
        meeting.into_iter().for_each(|meeting| meeting.abort(reason));
    }

    /// Why it has failed, if it has.
    pub(super) fn error(&self) -> Option<Error> {
        self.get()?.error()
    }

    fn meeting(&self) -> MutexGuard<'_, Option<Group>> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Memory of devices
///
/// A group has one engine for memory of the host and may have another for that of devices. Which of them
/// carries out a call follows from where its memory lies ([`Space`]), call by call. Each keeps its own
/// calls in order; between the two there is none. What ends one of them ends the group.
///
/// For devices it is NCCL, which is looked for when the first such call is made: by all ranks together, which
/// hear of each that has no NCCL, or no device. So the first such call waits for all ranks, also an asynchronous
/// one, and ranks make it at the same place among their other calls. Its device is the rank's from then on.
impl Group {
    /// Says who carries out the group's calls on the memory of devices: once, for all clones of the group,
    /// and alike on every rank.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use consort::{Backend, Group};
    ///
    /// /// For ranks that have an accelerator each, which a library of their own reaches.
    /// fn use_accelerators(group: &Group, library: Arc<dyn Backend>) -> consort::Result<()> {
    ///     group.use_for_devices(library)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when that was said before; and in a forked child.
    pub fn use_for_devices(&self, backend: Arc<dyn Backend>) -> Result<()> {
        self.backend()?;
        self.shared.devices.engine.set(Ok(backend)).map_err(|_| {
            Error::Argument(format!("group {} has an engine for devices already", self.name()))
        })
    }

    /// What carries out the group's calls on the memory of devices can do, if there is such. NCCL's are those of its
    /// newest versions: what an older one lacks is refused call by call.
    ///
    /// # Errors
    /// In a forked child.
    pub fn device_capabilities(&self) -> Result<Option<&Capabilities>> {
        self.backend()?;
        Ok(self.shared.devices.get().map(|engine| engine.capabilities()))
    }

    /// The device on whose memory NCCL carries out this rank's calls: that of the group's first such call, once
    /// there was one.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert_eq!(group.device_in_use()?, None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// In a forked child.
    pub fn device_in_use(&self) -> Result<Option<u16>> {
        self.backend()?;
        Ok(self.shared.devices.nccl.get().map(|nccl| nccl.device().number()))
    }

    /// Who carries out calls on this memory.
    ///
    /// # Errors
    /// When nobody does, and in a forked child.
    #[inline]
    pub(crate) fn backend_for(&self, space: Option<Space>) -> Result<&Arc<dyn Backend>> {
        let host = self.backend()?;
        match space {
            None | Some(Space::Host) => Ok(host),
            Some(Space::Device(number)) => {
                self.check_reach(number)?;
                let devices = &self.shared.devices;
                devices.get_or_make(|| {
                    let nccl = Arc::new(Nccl::join(self, number)?);
                    Ok(devices.nccl.get_or_init(|| nccl).clone() as Arc<dyn Backend>)
                })
            }
        }
    }

    /// The same for memory of a device, if it is NCCL.
    ///
    /// # Errors
    /// When it is not; otherwise as [`backend_for`](Self::backend_for).
    pub(crate) fn nccl_for(&self, number: u16) -> Result<&Arc<Nccl>> {
        self.backend_for(Some(Space::Device(number)))?;
        self.shared.devices.nccl.get().ok_or_else(|| {
            let group = self.name();
            Error::Argument(format!(
                "group {group}: symmetric memory of devices is NCCL's, and the program has an engine of its own for \
                 devices"
            ))
        })
    }

    /// Who carries out messages in this memory.
    ///
    /// # Errors
    /// When nobody does, and in a forked child.
    #[inline]
    pub(crate) fn post_for(&self, space: Option<Space>) -> Result<&Arc<dyn Backend>> {
        match space {
            None | Some(Space::Host) => self.backend(),
            // Two ranks have a message, and it takes all of them to make an engine.
            Some(_) => self.shared.devices.get().ok_or_else(no_messages),
        }
    }

    /// Whether there is an engine for calls on this device's memory, or all ranks together can look for one.
    ///
    /// # Errors
    /// When neither is so.
    fn check_reach(&self, number: u16) -> Result<()> {
        let Shared { job, devices, lookout, .. } = &*self.shared;
        let why = match job.options.engine {
            _ if devices.get().is_some() => return Ok(()),
            _ if job.neighbourhood.is_none() => "it only pretends to have ranks",
            Engine::Host => "the engine that was chosen is the host's",
            _ if lookout.is_none() => "somebody else carries out its calls",
            _ => return Ok(()),
        };
        let group = self.name();
        Err(Error::Argument(format!(
            "this memory lies on device {number}, and group {group} works on the host's alone: {why}"
        )))
    }

    /// Has another group, in which the ranks make an engine, end when this one is [aborted](Self::abort).
    pub(crate) fn ends_with_it(&self, meeting: &Self) -> EndsWithIt<'_> {
        let devices = &self.shared.devices;
        *devices.meeting() = Some(meeting.clone());
        if let Some(error) = self.error() {
            meeting.abort(&error.to_string());
        }
        EndsWithIt(devices)
    }

    /// What is known of its ranks, for calls that are counted and written down aside, under this name.
    pub(crate) fn recorded_aside(&self, lookout: &Lookout, name: &str) -> Lookout {
        let Shared { job, world_ranks, .. } = &*self.shared;
        lookout.aside(name, &job.recorder, world_ranks)
    }

    /// What is known of its ranks, unless somebody else carries out its calls.
    pub(crate) fn lookout(&self) -> Option<&Lookout> {
        self.shared.lookout.as_ref()
    }
}
