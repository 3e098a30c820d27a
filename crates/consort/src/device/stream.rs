//! What a device does, one thing after the other.

use std::ffi::c_void;
use std::fmt;
use std::ptr;

use super::table::Handle;
use super::{Device, DeviceError};

/// A line of things that a device does one after the other, beside its default one.
pub struct Stream {
    device: Device,
    handle: Handle,
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
        let handle = device.enter()?.make_stream()?;
        Ok(Self { device: device.clone(), handle })
    }

    /// Whose it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The handle by which other libraries know it, for as long as this lives.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle.as_ptr()
    }

    /// An event that happens when all is done that was put into it so far.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn record(&self) -> Result<Event, DeviceError> {
        Event::after(&self.device, self.as_raw())
    }

    /// Has all that is put into it from now on wait for an event.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn wait_for(&self, event: &Event) -> Result<(), DeviceError> {
        self.device.enter()?.hold(self.as_raw(), event.handle)
    }
}

impl Drop for Stream {
    /// What was put into it is done first.
    fn drop(&mut self) {
        if !self.device.is_at_home() {
            return;
        }
        let done = self.device.enter().and_then(|table| table.destroy_stream(self.handle));
        if let Err(error) = done {
            tracing::warn!("a stream of {:?} cannot be given back: {error}", self.device);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream of {:?}", self.device)
    }
}

/// How far a stream has come.
pub struct Event {
    device: Device,
    handle: Handle,
}

impl Event {
    /// Happens when all is done that the device's default stream was given so far.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn of_default(device: &Device) -> Result<Self, DeviceError> {
        Self::after(device, ptr::null_mut())
    }

    fn after(device: &Device, stream: *mut c_void) -> Result<Self, DeviceError> {
        let table = device.enter()?;
        let event = Self { device: device.clone(), handle: table.make_event()? };
        table.record(event.handle, stream)?;
        Ok(event)
    }

    /// Whether it has happened.
    ///
    /// # Errors
    /// When something before it has failed.
    pub fn has_happened(&self) -> Result<bool, DeviceError> {
        self.device.enter()?.has_happened(self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.device.is_at_home() {
            return;
        }
        let done = self.device.enter().and_then(|table| table.destroy_event(self.handle));
        if let Err(error) = done {
            tracing::warn!("an event of {:?} cannot be given back: {error}", self.device);
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of {:?}", self.device)
    }
}
