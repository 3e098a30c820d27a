//! Whose memory a pointer leads to: that of this process, and of ranks of this host that have shared theirs.

use consort::Group;
use consort_sys::origin::PerProcess;

use crate::memory::{self, Region};
use crate::shared::{Place, Shared};

/// The way to a rank's window.
#[derive(Debug)]
pub(crate) enum Near {
    /// There is none.
    Nowhere,
    /// It is this process's own memory, and begins here.
    Here(usize),
    /// It is another's, and begins so far behind the beginning of this.
    There(Shared, usize),
}

impl Near {
    /// What a rank says of its window, for others to find a way to it.
    pub(super) fn tell(mine: Region) -> [u64; WORDS] {
        let nowhere = (Place { process: 0, descriptor: 0, file: 0, len: 0 }, 0);
        let (place, offset) = memory::place_of(mine).unwrap_or(nowhere);
        let Place { process, descriptor, file, len } = place;
        [*TOKEN.here(), mine.address() as u64, process, descriptor, file, len, offset as u64]
    }

    /// The way to the window that a rank has said this of.
    pub(super) fn find(
        [token_of, address, process, descriptor, file, len, offset]: [u64; WORDS],
    ) -> Self {
        if token_of == *TOKEN.here() {
            return Self::Here(address as usize);
        }
        if process == 0 || offset > len {
            return Self::Nowhere;
        }
        let found = Shared::open(Place { process, descriptor, file, len });
        found.map_or(Self::Nowhere, |shared| Self::There(shared, offset as usize))
    }

    /// Where the window begins, in this process.
    pub(crate) fn start(&self) -> Option<usize> {
        match self {
            Self::Nowhere => None,
            Self::Here(address) => Some(*address),
            Self::There(shared, offset) => Some(shared.address() + offset),
        }
    }
}

/// Whether ranks of a group reach each other's memory by pointers: they are on one host, and nobody has said that
/// they are not to.
pub(crate) fn is_near(group: &Group) -> bool {
    let is_off = std::env::var(P2P_DISABLE).is_ok_and(|value| value.trim() == "1");
    group.shares_memory() && !is_off
}

fn token() -> u64 {
    let mut bytes = [0; 8];
    // Without chance, the process is told by its number.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes) ^ u64::from(std::process::id())
}

/// What tells this process from all others, also from those that are forked from it.
static TOKEN: PerProcess<u64> = PerProcess::new(token);
pub(super) const WORDS: usize = 7;
/// NCCL's name for it.
pub(crate) const P2P_DISABLE: &str = "NCCL_P2P_DISABLE";
