//! Who carries out a group's calls on the memory of devices.

use std::sync::{Arc, OnceLock};

use consort_sys::view::Space;

use super::Group;
use crate::backend::{Backend, Capabilities};
use crate::error::{Error, Result};

/// An engine for calls on the memory of devices, if there is one. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    engine: Arc<OnceLock<Arc<dyn Backend>>>,
}

impl Devices {
    fn get(&self) -> Option<&Arc<dyn Backend>> {
        self.engine.get()
    }

    /// How many calls came in.
    pub(super) fn calls(&self) -> u64 {
        self.get().map_or(0, |engine| engine.calls())
    }

    /// Ends what it carries out.
    pub(super) fn abort(&self, reason: &str) {
        self.get().into_iter().for_each(|engine| engine.abort(reason));
    }

    /// Why it has failed, if it has.
    pub(super) fn error(&self) -> Option<Error> {
        self.get()?.error()
    }
}

/// # Memory of devices
///
/// A group has one engine for memory of the host and may have another for that of devices. Which of them
/// carries out a call follows from where its memory lies ([`Space`]), call by call. Each keeps its own
/// calls in order; between the two there is none. What ends one of them ends the group.
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
        self.shared.devices.engine.set(backend).map_err(|_| {
            Error::Argument(format!("group {} has an engine for devices already", self.name()))
        })
    }

    /// What carries out the group's calls on the memory of devices can do, if there is such.
    ///
    /// # Errors
    /// In a forked child.
    pub fn device_capabilities(&self) -> Result<Option<&Capabilities>> {
        self.backend()?;
        Ok(self.shared.devices.get().map(|engine| engine.capabilities()))
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
            Some(device) => self.shared.devices.get().ok_or_else(|| self.out_of_reach(device)),
        }
    }

    #[cold]
    fn out_of_reach(&self, space: Space) -> Error {
        Error::Argument(format!(
            "this memory lies on {space}, and group {} works on the host's alone: copy it there, or give \
             the group an engine for devices",
            self.name()
        ))
    }
}
