//! A rank's part of symmetric memory, also before any other rank knows it.

use super::super::context::{Failed, on_device};
use crate::device::Device;
use crate::nccl::{Library, Memory};

/// Memory of NCCL's on a device. It is given back there when it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    /// There until the end.
    memory: Option<Memory>,
    device: Device,
}

impl Part {
    /// So many bytes.
    pub(super) fn new(library: Library, device: &Device, bytes: usize) -> Result<Self, Failed> {
        let memory = Some(on_device(device, || Memory::new(library, bytes))?);
        Ok(Self { memory, device: device.clone() })
    }

    pub(super) fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("it is there until the end")
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let memory = self.memory.take();
        self.device.end_inside(|| drop(memory));
    }
}
