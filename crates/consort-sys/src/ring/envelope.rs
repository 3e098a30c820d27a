//! What stands before every message in a ring.

use super::{LINE, RingError, Rings};

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// How long it is.
    pub bytes: usize,
    /// What it is about: receivers choose by it.
    pub tag: u32,
    /// What its bytes mean to those who exchange them.
    pub kind: u8,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// In the ring, after its envelope or in the same line.
    Here,
    /// At this address of its sender's memory. It is in the same line as the envelope.
    There(u64),
}

impl Envelope {
    /// Whether the message is in the same line as the envelope.
    pub(super) fn is_alone(&self) -> bool {
        self.bytes <= Rings::INLINE
    }

    /// For the message with this number in its ring.
    pub(super) fn to_bytes(self, number: u32, place: Where) -> [u8; WITH_ADDRESS] {
        let mut bytes = [0; WITH_ADDRESS];
        if let Where::There(address) = place {
            bytes[17] = 1;
            bytes[SIZE..].copy_from_slice(&address.to_ne_bytes());
        }
        bytes[..8].copy_from_slice(&(self.bytes as u64).to_ne_bytes());
        bytes[8..12].copy_from_slice(&number.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[16] = self.kind;
        bytes
    }

    /// Of the message that has to have this number, if none was lost and none came twice.
    pub(super) fn from_bytes(
        bytes: [u8; WITH_ADDRESS],
        number: u32,
    ) -> Result<(Self, Where), RingError> {
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let long =
            |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[at + byte]));
        let len = long(0);
        if word(8) != number {
            let found = word(8);
            return Err(RingError::Damaged(format!("message {found} came instead of {number}")));
        }
        let place = if bytes[17] == 0 { Where::Here } else { Where::There(long(SIZE)) };
        match isize::try_from(len) {
            Ok(len) => {
                Ok((Self { bytes: len.unsigned_abs(), tag: word(12), kind: bytes[16] }, place))
            }
            Err(_) => {
                Err(RingError::Damaged(format!("message {number} claims to have {len} bytes")))
            }
        }
    }
}

/// How many bytes of its line an envelope takes.
pub(super) const SIZE: usize = LINE - Rings::INLINE;
/// How many it takes with the address of a message that is elsewhere.
pub(super) const WITH_ADDRESS: usize = SIZE + 8;
