//! What has to be right before NCCL is called: it would take a wrong length for memory that is there.

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::error::{Error, Result};

/// A call that is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) function: &'static str,
    pub(super) dtype: Dtype,
    pub(super) rank: u32,
    pub(super) world: u32,
}

impl Check {
    /// A rank that a call names.
    pub(super) fn peer(self, name: &str, peer: u32) -> Result<i32> {
        match peer < self.world {
            true => Ok(peer as i32),
            false => self
                .refuse(format!("{name} {peer} is no rank: there are {}, from 0 on", self.world)),
        }
    }

    /// How many elements so many bytes are.
    pub(super) fn elements(self, name: &str, bytes: usize) -> Result<usize> {
        let (dtype, size) = (self.dtype, self.dtype.size());
        match bytes.is_multiple_of(size) {
            true => Ok(bytes / size),
            false => self.refuse(format!("{name} has {bytes} bytes, and each {dtype} has {size}")),
        }
    }

    /// That two have one length.
    pub(super) fn equal(self, send: usize, recv: usize) -> Result<()> {
        match send == recv {
            true => Ok(()),
            false => self.refuse(format!(
                "what is sent has {send} bytes, what is received {recv}; they have to be the same"
            )),
        }
    }

    /// That one has room for a part of each rank.
    pub(super) fn parts(self, whole: (&str, usize), part: (&str, usize)) -> Result<()> {
        let world = self.world;
        match part.1.checked_mul(world as usize) == Some(whole.1) {
            true => Ok(()),
            false => self.refuse(format!(
                "{} has {} bytes, and {} {}; with {world} ranks the one has to be {world} times the other",
                whole.0, whole.1, part.0, part.1
            )),
        }
    }

    /// That what is sent and what is received lie apart, or the part at its place in the whole.
    pub(super) fn in_place(
        self,
        whole: (*const u8, usize),
        part: (*const u8, usize),
    ) -> Result<()> {
        let own = whole.0.addr().wrapping_add(self.rank as usize * part.1);
        match part.0.addr() == own || is_apart(whole, part) {
            true => Ok(()),
            false => self.refuse(format!(
                "what is sent and what is received overlap; in place, the part of rank {} is at {} bytes of the \
                 whole",
                self.rank,
                self.rank as usize * part.1
            )),
        }
    }

    /// That what is sent and what is received are the same memory, or lie apart.
    pub(super) fn same_or_apart(self, send: Source<'_>, recv: Target<'_>) -> Result<()> {
        let (send, recv) = (extent(send), extent(recv.into()));
        match send.0 == recv.0 || is_apart(send, recv) {
            true => Ok(()),
            false => self.refuse("what is sent and what is received overlap, and are not the same"),
        }
    }

    /// That what is sent and what is received lie apart.
    pub(super) fn apart(self, send: Source<'_>, recv: Target<'_>) -> Result<()> {
        match is_apart(extent(send), extent(recv.into())) {
            true => Ok(()),
            false => self.refuse(
                "what is sent and what is received overlap; this call cannot work in place",
            ),
        }
    }

    pub(super) fn refuse<T>(self, reason: impl Into<String>) -> Result<T> {
        let reason = format!("rank {} of {}: {}", self.rank, self.world, reason.into());
        Err(Error::argument(self.function, reason))
    }
}

/// Where bytes begin, and how many they are.
pub(super) fn extent(bytes: Source<'_>) -> (*const u8, usize) {
    (bytes.as_ptr(), bytes.len())
}

fn is_apart(one: (*const u8, usize), other: (*const u8, usize)) -> bool {
    let end = |(start, len): (*const u8, usize)| start.addr().saturating_add(len);
    one.1 == 0 || other.1 == 0 || end(one) <= other.0.addr() || end(other) <= one.0.addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: Check = Check { function: "ncclAllGather", dtype: Dtype::F32, rank: 1, world: 3 };

    #[test]
    fn roots_and_peers_are_ranks() {
        assert_eq!(CHECK.peer("root", 2).unwrap(), 2);
        let error = CHECK.peer("root", 3).unwrap_err().to_string();
        assert_eq!(error, "ncclAllGather: rank 1 of 3: root 3 is no rank: there are 3, from 0 on");
    }

    #[test]
    fn lengths_are_whole_elements_and_fit_each_other() {
        assert_eq!(CHECK.elements("what is sent", 12).unwrap(), 3);
        assert!(CHECK.elements("what is sent", 10).is_err());
        assert!(CHECK.parts(("all", 36), ("one", 12)).is_ok());
        assert!(CHECK.parts(("all", 35), ("one", 12)).is_err());
        assert!(CHECK.parts(("all", 1), ("one", usize::MAX)).is_err());
        assert!(CHECK.equal(4, 8).is_err());
    }

    #[test]
    fn overlaps_are_refused_unless_they_are_in_place() {
        let mut bytes = [0_u8; 36];
        let all = Target::from(&mut bytes[..]);
        let whole = extent(all.into());
        let part = |range| extent(Source::from(all).slice(range));
        assert!(CHECK.in_place(whole, part(12..24)).is_ok());
        assert!(CHECK.in_place(whole, part(0..12)).is_err());
        assert!(CHECK.in_place(whole, part(5..5)).is_ok());
        assert!(CHECK.same_or_apart(all.into(), all).is_ok());
        assert!(CHECK.same_or_apart(Source::from(all).slice(0..20), all.slice(16..36)).is_err());
        assert!(CHECK.apart(Source::from(all).slice(0..18), all.slice(18..36)).is_ok());
        assert!(CHECK.apart(all.into(), all).is_err());
    }
}
