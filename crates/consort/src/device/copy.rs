//! Copies between memory of devices, and of the host.

use consort_sys::view::{Source, Space, Target};

use super::block::Block;
use super::{Device, DeviceError};

impl Device {
    /// Copies bytes from wherever they lie to wherever they are to lie: this device, one whose memory it reaches,
    /// or the host. It is in order with the device's default stream, and may go on after this has returned.
    ///
    /// # Panics
    /// When the two are not as long.
    pub(crate) fn copy(&self, to: Target<'_>, from: Source<'_>) -> Result<(), DeviceError> {
        assert_eq!(to.len(), from.len(), "a copy is as long as what it is made of");
        if to.is_empty() {
            return Ok(());
        }
        let table = self.enter()?;
        match (to.space(), from.space()) {
            (Space::Host, Space::Host) => {
                to.copy_from(from);
                Ok(())
            }
            (Space::Device(_), Space::Host) => table.write_from(Block::of(to.into()), from),
            (Space::Host, Space::Device(_)) if to.holds_truths() => {
                let mut bytes = vec![0; from.len()];
                table.read(Block::of(from), &mut bytes)?;
                to.copy_from(bytes[..].into());
                Ok(())
            }
            (Space::Host, Space::Device(_)) => table.read_into(Block::of(from), to),
            (Space::Device(_), Space::Device(_)) => {
                table.copy(Block::of(to.into()), Block::of(from))
            }
        }
    }

    /// Sets bytes of this device to zero, in order with its default stream.
    pub(crate) fn clear(&self, bytes: Block) -> Result<(), DeviceError> {
        if bytes.len() == 0 { Ok(()) } else { self.enter()?.fill(bytes, 0) }
    }
}
