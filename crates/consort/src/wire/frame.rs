//! What goes over a connection: frames, each a header of 64 bytes and so many bytes of data.
//!
//! ```text
//!  0  kind      1  flags     2  track     4  position
//!  8  bytes                 12  checksum (if flag 0 is set)
//! 16  group                 24  epoch     28  checksum of the header (if flag 0 is set)
//! 32  number                40  digest
//! 48  call, two words: operation, dtype, reduce op, root; count
//! ```
//!
//! Behind the data of parts and letters is one more byte, which says that they are whole.
//!
//! Numbers are in little-endian order. Headers come from outside: what they say is checked here, and
//! how much they may announce is bounded by their kind.

pub(crate) use crate::exec::Label;

/// A header's length.
pub(crate) const HEADER: usize = 64;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A part of a call.
    Part = 1,
    /// A piece of a message.
    Letter = 2,
    /// The group has ended; the data say why.
    Halt = 3,
    /// So many bytes of the group were used up: as many more may be sent.
    Credit = 4,
    /// The sender makes no more calls in the group.
    Leave = 5,
    /// The sender waits for something of this call.
    Ask = 6,
    /// The sender ends, in good order: it has left all groups.
    Bye = 7,
    /// The sender knows of a rank that it is dead.
    Mourn = 8,
    /// The sender waits in the group: for this rank, in the end.
    Await = 9,
}

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) label: Label,
    /// How many bytes follow.
    pub(crate) bytes: u32,
    /// Their checksum, if there is one.
    pub(crate) sum: Option<u32>,
    pub(crate) group: u64,
    /// The job's round, of which 32 bits are told.
    pub(crate) epoch: u64,
    /// Which of the group's calls it belongs to; of a [`Kind::Credit`], how many bytes were used up, of a
    /// [`Kind::Leave`] or [`Kind::Bye`], on how many connections it is said, of a [`Kind::Halt`], who has
    /// ended the group, of a [`Kind::Mourn`] or [`Kind::Await`], the rank in the world.
    pub(crate) number: u64,
    /// A digest of that call and of all before it; of a [`Kind::Halt`], whether it is settled.
    pub(crate) digest: u64,
    /// What the call is, packed; of a [`Kind::Letter`], its envelope.
    pub(crate) call: [u64; 2],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.sum.is_some());
        bytes[2..4].copy_from_slice(&self.label.track.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.label.position.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sum.unwrap_or(0).to_le_bytes());
        let words = [self.group, self.epoch, self.number, self.digest, self.call[0], self.call[1]];
        for (place, word) in bytes[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[28..32].fill(0);
        if self.sum.is_some() {
            let sum = crc32c::crc32c(&bytes);
            bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// What another process encoded.
    ///
    /// # Errors
    /// What cannot be in it.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self, String> {
        let kind = match bytes[0] {
            1 => Kind::Part,
            2 => Kind::Letter,
            3 => Kind::Halt,
            4 => Kind::Credit,
            5 => Kind::Leave,
            6 => Kind::Ask,
            7 => Kind::Bye,
            8 => Kind::Mourn,
            9 => Kind::Await,
            other => return Err(format!("there are no frames of kind {other}")),
        };
        if bytes[1] > 1 {
            return Err(format!("there are no frames with flags {:#x}", bytes[1]));
        }
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if bytes[1] == 1 {
            let mut bare = *bytes;
            bare[28..32].fill(0);
            if crc32c::crc32c(&bare) != half(28) {
                return Err(
                    "a frame's header is not what was sent: its checksum differs".to_owned()
                );
            }
        }
        let header = Self {
            kind,
            label: Label { track: u16::from_le_bytes([bytes[2], bytes[3]]), position: half(4) },
            bytes: half(8),
            sum: (bytes[1] == 1).then(|| half(12)),
            group: word(16),
            epoch: u64::from(half(24)),
            number: word(32),
            digest: word(40),
            call: [word(48), word(56)],
        };
        if header.bytes as usize > kind.most() {
            return Err(format!("{} bytes in a frame of kind {kind:?}", header.bytes));
        }
        Ok(header)
    }
}

impl Header {
    /// What follows the data: a byte that says that they are whole. Whoever gives up on the way sends
    /// another.
    pub(crate) fn seal(&self) -> &'static [u8] {
        if self.kind.is_data() && self.bytes > 0 { &[WHOLE] } else { &[] }
    }
}

impl Kind {
    /// Whether it is what a call or a message is made of.
    pub(crate) const fn is_data(self) -> bool {
        matches!(self, Self::Part | Self::Letter)
    }

    /// How many bytes of data a frame can have.
    pub(crate) const fn most(self) -> usize {
        match self {
            Self::Part => PART,
            Self::Letter => LETTER,
            Self::Halt => VERDICT,
            Self::Credit | Self::Leave | Self::Ask | Self::Bye | Self::Mourn | Self::Await => 0,
        }
    }
}

/// Behind data that are whole.
pub(crate) const WHOLE: u8 = 0x5a;
/// The longest part of a call.
pub(crate) const PART: usize = 4 << 20;
/// The longest piece of a message.
pub(crate) const LETTER: usize = 256 << 10;
/// The longest verdict.
const VERDICT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let kind = prop_oneof![
            Just(Kind::Part),
            Just(Kind::Letter),
            Just(Kind::Halt),
            Just(Kind::Credit),
            Just(Kind::Leave),
            Just(Kind::Ask),
            Just(Kind::Bye),
            Just(Kind::Mourn),
            Just(Kind::Await),
        ];
        let words = any::<[u64; 6]>();
        (kind, any::<(u16, u32)>(), any::<u32>(), any::<Option<u32>>(), words).prop_map(
            |(kind, (track, position), bytes, sum, [group, epoch, number, digest, a, b])| Header {
                kind,
                label: Label { track, position },
                bytes: bytes % (kind.most() as u32 + 1),
                sum,
                group,
                epoch: u64::from(epoch as u32),
                number,
                digest,
                call: [a, b],
            },
        )
    }

    proptest! {
        #[test]
        fn headers_read_back(header in any_header()) {
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in any::<[u8; HEADER / 2]>(), kind in 0_u8..11) {
            let mut whole = [0; HEADER];
            whole[..HEADER / 2].copy_from_slice(&bytes);
            whole[0] = kind;
            if let Ok(header) = Header::decode(&whole) {
                prop_assert!(header.bytes as usize <= header.kind.most());
            }
        }
    }

    proptest! {
        #[test]
        fn with_checksums_no_bit_of_a_header_can_change(
            header in any_header(),
            sum in any::<u32>(),
            bit in 0..8 * HEADER,
        ) {
            let mut bytes = Header { sum: Some(sum), ..header }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Whether there are checksums at all the connection knows.
            if let Ok(other) = Header::decode(&bytes) {
                prop_assert!(bit == 8 && other.sum.is_none());
            }
        }
    }

    #[test]
    fn more_than_a_kind_may_announce_is_refused() {
        let header = Header {
            kind: Kind::Halt,
            label: Label { track: 0, position: 0 },
            bytes: VERDICT as u32 + 1,
            sum: None,
            group: 0,
            epoch: 0,
            number: 0,
            digest: 0,
            call: [0; 2],
        };
        let refused = Header::decode(&header.encode()).unwrap_err();
        assert_eq!(refused, "4097 bytes in a frame of kind Halt");
    }
}
