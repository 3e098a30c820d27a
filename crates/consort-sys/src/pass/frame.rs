//! What two ranks say to each other: three frames of fixed length, the same in both directions.

use blake3::Hash;

use super::error::Refusal;

/// Who speaks to whom, and a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) challenge: [u8; 32],
}

impl Hello {
    pub(super) const LEN: usize = HEAD + 4 + 32;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let rest = write_head(&mut bytes, HELLO, self.from);
        rest[..4].copy_from_slice(&self.to.to_le_bytes());
        rest[4..].copy_from_slice(&self.challenge);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, Refusal> {
        let (from, rest) = read_head(bytes, HELLO)?;
        let (to, challenge) = rest.split_first_chunk().expect("four bytes and a challenge");
        let challenge = challenge.try_into().expect("the rest is a challenge");
        Ok(Self { from, to: u32::from_le_bytes(*to), challenge })
    }
}

/// Shows that who said `mine` knows the token and has heard `theirs`. Each direction has its own
/// proof, so none can be sent back to who made it.
pub(super) fn proof(token: &[u8; 32], mine: &Hello, theirs: &Hello) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(token);
    hasher.update(PROOF);
    hasher.update(&mine.encode());
    hasher.update(&theirs.encode());
    hasher.finalize()
}

/// What comes with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gift {
    pub(super) from: u32,
    pub(super) size: u64,
}

impl Gift {
    pub(super) const LEN: usize = HEAD + 8;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        write_head(&mut bytes, GIFT, self.from).copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, Refusal> {
        let (from, rest) = read_head(bytes, GIFT)?;
        let size = rest.try_into().expect("the rest is a size");
        Ok(Self { from, size: u64::from_le_bytes(size) })
    }
}

/// Every frame that is not a proof begins with its kind, the version and who sends it.
fn write_head<'a>(bytes: &'a mut [u8], kind: &[u8; 8], from: u32) -> &'a mut [u8] {
    let (head, rest) = bytes.split_at_mut(HEAD);
    head[..8].copy_from_slice(kind);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..].copy_from_slice(&from.to_le_bytes());
    rest
}

fn read_head<'a>(bytes: &'a [u8], kind: &[u8; 8]) -> Result<(u32, &'a [u8]), Refusal> {
    let number = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().expect("a number has four bytes");
        u32::from_le_bytes(bytes)
    };
    if bytes[..8] != *kind {
        return Err(Refusal::Foreign);
    }
    match number(8) {
        VERSION => Ok((number(12), &bytes[HEAD..])),
        other => Err(Refusal::Version(other)),
    }
}

pub(super) const VERSION: u32 = 1;
pub(super) const PROOF_LEN: usize = blake3::OUT_LEN;
const HEAD: usize = 8 + 4 + 4;
const HELLO: &[u8; 8] = b"csrt-hi\n";
const GIFT: &[u8; 8] = b"csrt-fd\n";
const PROOF: &[u8] = b"consort: exchange of descriptors";

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Hello = Hello { from: 1, to: 0x0203, challenge: [7; 32] };
    const YOU: Hello = Hello { from: 0x0203, to: 1, challenge: [9; 32] };

    #[test]
    fn frames_say_what_was_said() {
        assert_eq!(Hello::decode(&ME.encode()), Ok(ME));
        let gift = Gift { from: 3, size: 1 << 40 };
        assert_eq!(Gift::decode(&gift.encode()), Ok(gift));
    }

    #[test]
    fn other_frames_and_versions_are_refused() {
        assert_eq!(Hello::decode(&[0; Hello::LEN]), Err(Refusal::Foreign));
        let mut gift = Gift { from: 3, size: 1 }.encode();
        gift[8] = 2;
        assert_eq!(Gift::decode(&gift), Err(Refusal::Version(2)));
        gift[..8].copy_from_slice(HELLO);
        assert_eq!(Gift::decode(&gift), Err(Refusal::Foreign));
    }

    #[test]
    fn a_proof_depends_on_the_token_the_direction_and_both_challenges() {
        let mine = proof(&[1; 32], &ME, &YOU);
        assert_eq!(mine, proof(&[1; 32], &ME, &YOU));
        assert_ne!(mine, proof(&[2; 32], &ME, &YOU));
        assert_ne!(mine, proof(&[1; 32], &YOU, &ME));
        for (me, you) in [
            (Hello { challenge: [8; 32], ..ME }, YOU),
            (ME, Hello { challenge: [8; 32], ..YOU }),
            (Hello { from: 2, ..ME }, YOU),
        ] {
            assert_ne!(mine, proof(&[1; 32], &me, &you));
        }
    }
}
