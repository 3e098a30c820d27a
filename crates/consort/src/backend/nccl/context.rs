//! Where NCCL is called: in the context of the device that it is to work with.
//!
//! NCCL takes the device that is the thread's. What it does with memory it does on that, or it makes another the
//! thread's for as long and gives back the one that was there before: on a thread that has none, which is how threads
//! begin, that would be device 0, with a context of its own that nobody has asked for. So nothing of it is called
//! elsewhere, but what only asks for the state of a communicator; how something ends is seen to by
//! [`Device::end_inside`].

use crate::device::{Device, DeviceError};
use crate::nccl;

/// Why NCCL has not done something.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// It was not asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It says so itself.
    #[error(transparent)]
    Nccl(#[from] nccl::Error),
}

/// Has NCCL do something with a device.
pub(super) fn on_device<T>(
    device: &Device,
    call: impl FnOnce() -> nccl::Result<T>,
) -> Result<T, Failed> {
    Ok(device.inside(call)??)
}
