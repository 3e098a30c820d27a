//! Buckets in the memory of a device: gradients are moved there and back, and nobody looks at them.

use std::sync::Arc;

use consort::device::{self, Device};
use consort::{Source, Target};

use super::{Bucket, Plan};
use crate::error::{Error, Result};
use crate::memory::Memory;

impl Bucket {
    /// An empty one in the memory of a device.
    ///
    /// # Errors
    /// When it has not so much memory left.
    pub(crate) fn on_device(plan: Arc<Plan>, device: &Device) -> Result<Self> {
        Ok(Self { memory: Memory::on_device(plan.bytes, device)?, plan })
    }

    /// The memory of a device that it lies in, if it does.
    pub(crate) fn device_memory(&self) -> Option<&device::Memory> {
        self.memory.device()
    }

    /// Whether its memory is there: it may have been given away.
    pub(crate) fn is_there(&self) -> bool {
        self.memory.is_there()
    }

    /// A part of it by name, wherever it lies.
    pub(crate) fn part_source(&self, at: usize) -> Source<'_> {
        self.memory.source().slice(self.plan.range(&self.plan.parts[at]))
    }

    /// Copies a gradient that the host has to its place, if that is on a device. Says whether it is.
    pub(crate) fn upload(&mut self, at: usize, gradient: &[u8]) -> Result<bool> {
        let start = self.plan.parts[at].at;
        let Some(memory) = self.memory.device_mut() else { return Ok(false) };
        memory.write(start, gradient)?;
        Ok(true)
    }

    /// Copies a gradient to the host, if it is on a device. Says whether it is.
    pub(crate) fn download(&self, at: usize, room: &mut [u8]) -> Result<bool> {
        let Some(memory) = self.memory.device() else { return Ok(false) };
        memory.read(self.plan.parts[at].at, room)?;
        Ok(true)
    }

    /// Copies a gradient to its place on the device that has it.
    pub(crate) fn copy_from(&mut self, at: usize, gradient: Source<'_>) -> Result<()> {
        let start = self.plan.parts[at].at;
        let memory = self.memory.device_mut().ok_or_else(not_on_device)?;
        Ok(memory.copy_from(start, gradient)?)
    }

    /// Copies a gradient to memory of its device.
    pub(crate) fn copy_to(&self, at: usize, room: Target<'_>) -> Result<()> {
        let memory = self.memory.device().ok_or_else(not_on_device)?;
        Ok(memory.copy_to(self.plan.parts[at].at, room)?)
    }

    /// Puts zeroes in the place of a gradient, wherever it lies.
    pub(crate) fn clear(&mut self, at: usize) -> Result<()> {
        self.ensure();
        let range = self.plan.range(&self.plan.parts[at]);
        match self.memory.device_mut() {
            Some(memory) => memory.fill(range, 0)?,
            None => self.part_mut(at).fill(0),
        }
        Ok(())
    }

    /// Takes over a gradient from another bucket, which lies where this does.
    pub(crate) fn take_over(&mut self, at: usize, other: &Self, there: usize) -> Result<()> {
        self.ensure();
        if self.memory.device().is_some() {
            return self.copy_from(at, other.part_source(there));
        }
        self.part_mut(at).copy_from_slice(other.part(there));
        Ok(())
    }
}

/// Something was asked of buckets on a device, and they are none.
pub(crate) fn not_on_device() -> Error {
    let what = "this reducer keeps gradients in the memory of the host: say Options::on_device for memory of a \
                device, or use Pass::ready and Reduced::copy_to";
    Error::Argument(what.to_owned())
}
