//! The bytes of a store file: a header, then records. Pure: bytes in, meaning out.
//!
//! ```text
//! header   magic 8 | version 4 | zero 4 | life 8 | start 8 | !start 8
//! record   length 4 | !length 4 | checksum 4 | payload
//! ```
//!
//! Numbers are little-endian. A number followed by its complement is known to be whole. So a
//! record that a dying writer left unfinished (*torn*: the file ends inside it, or it is the last
//! and its checksum is wrong) can be told from one that was changed afterwards (*damaged*: there
//! is more behind it, or its length makes no sense).

use serde::{Deserialize, Serialize};

use crate::request::Request;
use crate::table::Part;

/// The front of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Drawn at random when the file is started anew: tells one life of the file from the next.
    pub(crate) life: u64,
    /// Where the first record that counts begins.
    pub(crate) start: u64,
}

/// Why a header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// These bytes are something else.
    NotAStore,
    /// Another version's format.
    Version(u32),
    /// It was changed by something that is not a store.
    Damaged,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stored<'a> {
    /// This was asked, and changed something.
    Change(#[serde(borrow)] Request<'a>),
    /// What follows, up to [`Stored::End`], is everything that all records before this made.
    Begin,
    /// A part of that.
    Part(#[serde(borrow)] Part<'a>),
    /// The parts are complete.
    End,
}

/// What stands at a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A whole record.
    Whole {
        /// What it says.
        payload: &'a [u8],
        /// How many bytes it takes in the file.
        size: usize,
    },
    /// So many bytes are needed to know; the log has them.
    More(usize),
    /// The beginning of a record whose writer died.
    Torn,
}

/// What is wrong with a record, or with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

impl Header {
    pub(crate) const SIZE: usize = 40;
    /// Where [`place`](Header::place) belongs: the part that changes while the file is used.
    pub(crate) const PLACE: u64 = 24;

    pub(crate) fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.life.to_le_bytes());
        bytes[24..].copy_from_slice(&self.place());
        bytes
    }

    pub(crate) fn place(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..].copy_from_slice(&(!self.start).to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, HeaderFault> {
        if bytes[..8] != MAGIC {
            return Err(HeaderFault::NotAStore);
        }
        let version = read_u32(&bytes[8..12]);
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        let header = Self { life: read_u64(&bytes[16..24]), start: read_u64(&bytes[24..32]) };
        if *bytes != header.bytes() || header.start < Self::SIZE as u64 {
            return Err(HeaderFault::Damaged);
        }
        Ok(header)
    }

    /// Whether a file that begins so may be a store's: it is one, or the creator of one died
    /// before the first eight bytes were written.
    pub(crate) fn may_begin_with(bytes: &[u8]) -> bool {
        let length = bytes.len().min(MAGIC.len());
        bytes[..length] == MAGIC[..length]
    }
}

/// Looks at the record that `bytes` begin with. `rest` says how many bytes there are from here to
/// the end of the log; `bytes` may be fewer.
pub(crate) fn parse(bytes: &[u8], rest: u64) -> Result<Step<'_>, Damage> {
    if rest < HEAD as u64 {
        return Ok(Step::Torn);
    }
    let Some((head, behind)) = bytes.split_at_checked(HEAD) else { return Ok(Step::More(HEAD)) };
    let length = read_u32(&head[..4]);
    if length != !read_u32(&head[4..8]) {
        return Err(Damage("what should be the length of a record is not one"));
    }
    if length == 0 || length > MAX_PAYLOAD {
        return Err(Damage("the length of a record is impossible"));
    }
    let (length, size) = (length as usize, HEAD + length as usize);
    if size as u64 > rest {
        return Ok(Step::Torn);
    }
    let Some(payload) = behind.get(..length) else { return Ok(Step::More(size)) };
    if checksum(payload) != head[8..] {
        return if size as u64 == rest {
            Ok(Step::Torn)
        } else {
            Err(Damage("a record's checksum is wrong and there are records behind it"))
        };
    }
    Ok(Step::Whole { payload, size })
}

/// What a whole record's payload says.
pub(crate) fn decode(payload: &[u8]) -> Result<Stored<'_>, Damage> {
    match postcard::take_from_bytes(payload) {
        Ok((stored, [])) => Ok(stored),
        _ => Err(Damage("a record says nothing that this version understands")),
    }
}

/// Adds a record at the end of `out`.
pub(crate) fn encode(stored: &Stored<'_>, out: &mut Vec<u8>) {
    let payload = postcard::to_stdvec(stored).expect("every record has a length and a form");
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|&length| length <= MAX_PAYLOAD)
        .expect("requests and parts are far smaller than a record may be");
    out.reserve(HEAD + payload.len());
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(checksum(&payload));
    out.extend_from_slice(&payload);
}

fn checksum(payload: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(payload);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}

fn read_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes are handed in"))
}

fn read_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes are handed in"))
}

const MAGIC: [u8; 8] = *b"consort\0";
const VERSION: u32 = 1;
const HEAD: usize = 12;
/// Twice what a request may weigh: enough for any part, too.
const MAX_PAYLOAD: u32 = 128 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&Stored::Change(Request::Set { key: "key", value }), &mut bytes);
        bytes
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let bytes = record(b"value");
        let Ok(Step::Whole { payload, size }) = parse(&bytes, bytes.len() as u64) else {
            panic!("not whole");
        };
        assert_eq!(size, bytes.len());
        let said = Stored::Change(Request::Set { key: "key", value: b"value" });
        assert_eq!(decode(payload), Ok(said));
    }

    #[test]
    fn a_record_cut_off_anywhere_is_torn() {
        let bytes = record(b"value");
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut], cut as u64), Ok(Step::Torn), "cut at {cut}");
        }
    }

    #[test]
    fn a_part_of_a_whole_record_asks_for_what_it_needs() {
        let bytes = record(b"value");
        let rest = bytes.len() as u64 + 100;
        assert_eq!(parse(&bytes[..3], rest), Ok(Step::More(HEAD)));
        assert_eq!(parse(&bytes[..HEAD], rest), Ok(Step::More(bytes.len())));
    }

    #[test]
    fn a_length_beyond_the_end_asks_for_nothing() {
        let mut bytes = record(b"value");
        bytes[..4].copy_from_slice(&MAX_PAYLOAD.to_le_bytes());
        bytes[4..8].copy_from_slice(&(!MAX_PAYLOAD).to_le_bytes());
        assert_eq!(parse(&bytes, bytes.len() as u64), Ok(Step::Torn));
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes[4..8].copy_from_slice(&0u32.to_le_bytes());
        assert!(parse(&bytes, u64::MAX).is_err());
    }

    #[test]
    fn a_changed_payload_is_torn_at_the_end_and_damage_before_it() {
        let mut bytes = record(b"value");
        *bytes.last_mut().unwrap() ^= 1;
        let size = bytes.len() as u64;
        assert_eq!(parse(&bytes, size), Ok(Step::Torn));
        assert!(parse(&bytes, size + 1).is_err());
    }

    #[test]
    fn a_payload_with_something_behind_it_is_not_understood() {
        let mut payload = postcard::to_stdvec(&Stored::End).unwrap();
        assert_eq!(decode(&payload), Ok(Stored::End));
        payload.push(0);
        assert!(decode(&payload).is_err());
    }

    #[test]
    fn headers_read_back_and_tell_what_is_wrong_with_them() {
        let header = Header { life: 7, start: 4096 };
        let bytes = header.bytes();
        assert_eq!(Header::parse(&bytes), Ok(header));
        let changed = |index: usize| {
            let mut bytes = bytes;
            bytes[index] ^= 1;
            Header::parse(&bytes)
        };
        assert_eq!(changed(0), Err(HeaderFault::NotAStore));
        assert_eq!(changed(8), Err(HeaderFault::Version(0)));
        assert_eq!(changed(12), Err(HeaderFault::Damaged));
        assert_eq!(changed(24), Err(HeaderFault::Damaged));
        assert_eq!(changed(39), Err(HeaderFault::Damaged));
        let early = Header { life: 7, start: 8 };
        assert_eq!(Header::parse(&early.bytes()), Err(HeaderFault::Damaged));
    }

    #[test]
    fn only_beginnings_of_the_magic_may_be_a_store() {
        let header = Header { life: 7, start: 4096 }.bytes();
        for cut in 0..header.len() {
            assert!(Header::may_begin_with(&header[..cut]));
        }
        assert!(!Header::may_begin_with(b"c0nsort"));
        assert!(!Header::may_begin_with(b"rank,loss\n0,0.25\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, more in 0u64..1000) {
            let rest = bytes.len() as u64 + more;
            match parse(&bytes, rest) {
                Ok(Step::More(wanted)) => {
                    prop_assert!(wanted > bytes.len() && wanted as u64 <= rest);
                }
                Ok(Step::Whole { payload, size }) => {
                    prop_assert!(size <= bytes.len() && payload.len() < size);
                }
                Ok(Step::Torn) | Err(_) => {}
            }
            let _ = decode(&bytes);
        }

        #[test]
        fn any_header_is_read_without_harm(bytes: [u8; Header::SIZE]) {
            prop_assert!(Header::parse(&bytes).is_err());
        }
    }
}
