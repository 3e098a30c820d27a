//! Memory of a device.
#![allow(unsafe_code, reason = "a view of memory that Rust did not make can only be promised")]

use std::fmt;
use std::ops::Range;

use consort_sys::view::{Source, Space, Target};

use super::block::Block;
use super::{Device, DeviceError};

/// Bytes in the memory of a device, which this owns.
///
/// Copies are in order with the device's default stream, for which the calls of a group wait; for streams of its
/// own the program waits by itself. A call owns the memory that it works on.
pub struct Memory {
    device: Device,
    block: Block,
}

impl Memory {
    pub(super) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let block = if len == 0 { Block::NONE } else { device.enter()?.allocate(len)? };
        Ok(Self { device: device.clone(), block })
    }

    /// Whose it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes to it, from a place on.
    ///
    /// # Errors
    /// When they do not fit, or the driver fails.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        let part = self.part(at, bytes.len())?;
        if bytes.is_empty() { Ok(()) } else { self.device.enter()?.write(part, bytes) }
    }

    /// Copies bytes from it, from a place on.
    ///
    /// # Errors
    /// When there are not so many, or the driver fails.
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let part = self.part(at, bytes.len())?;
        if bytes.is_empty() { Ok(()) } else { self.device.enter()?.read(part, bytes) }
    }

    /// Copies bytes of the same device to it, from a place on: this device's own, or those of somebody who has a
    /// name for them. Nobody waits: it is done when the default stream has come to it, and what is put there
    /// later finds the copy.
    ///
    /// ```no_run
    /// use consort::device::Driver;
    ///
    /// let device = Driver::load()?.device(0)?;
    /// let (mut bucket, gradient) = (device.allocate(1 << 20)?, device.allocate(4000)?);
    /// bucket.fill(0..1 << 20, 0)?;
    /// bucket.copy_from(256, gradient.source())?;
    /// # Ok::<(), consort::device::DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// When they do not fit, or lie elsewhere, or the driver fails.
    pub fn copy_from(&mut self, at: usize, source: Source<'_>) -> Result<(), DeviceError> {
        self.check(source.space())?;
        let part = self.part(at, source.len())?;
        if source.is_empty() { Ok(()) } else { self.device.enter()?.copy(part, Block::of(source)) }
    }

    /// Copies bytes from it, from a place on, to others of the same device, in the same way.
    ///
    /// # Errors
    /// When there are not so many, or they lie elsewhere, or the driver fails.
    pub fn copy_to(&self, at: usize, target: Target<'_>) -> Result<(), DeviceError> {
        self.check(target.space())?;
        let part = self.part(at, target.len())?;
        if target.is_empty() {
            return Ok(());
        }
        self.device.enter()?.copy(Block::of(target.into()), part)
    }

    /// Sets some of the bytes to the same value, in the same way.
    ///
    /// # Errors
    /// When there are not so many, or the driver fails.
    pub fn fill(&mut self, range: Range<usize>, byte: u8) -> Result<(), DeviceError> {
        let part = self.part(range.start, range.len())?;
        if range.is_empty() { Ok(()) } else { self.device.enter()?.fill(part, byte) }
    }

    /// Their name for calls that read them.
    pub fn source(&self) -> Source<'_> {
        // SAFETY: they are given back when this is dropped.
        unsafe { self.block.source(self.device.number()) }
    }

    /// Their name for calls that write them.
    pub fn target(&mut self) -> Target<'_> {
        // SAFETY: they are given back when this is dropped.
        unsafe { self.block.target(self.device.number()) }
    }

    /// Whether what is to be copied within the device lies there.
    fn check(&self, given: Space) -> Result<(), DeviceError> {
        let own = Space::Device(self.device.number());
        if given == own { Ok(()) } else { Err(DeviceError::Elsewhere { given, own }) }
    }

    fn part(&self, at: usize, len: usize) -> Result<Block, DeviceError> {
        let there = self.len().saturating_sub(at);
        self.block.part(at, len).ok_or(DeviceError::Length { given: len, there })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_empty() || !self.device.is_at_home() {
            return;
        }
        if let Err(error) = self.device.enter().and_then(|table| table.free(self.block)) {
            tracing::warn!("memory of {:?} cannot be given back: {error}", self.device);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.len(), self.device)
    }
}
