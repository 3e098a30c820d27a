//! How large an arena is.

use std::path::Path;

use rustix::process::Resource;

use super::error::ArenaError;
use crate::memory::Memory;
use crate::root::Root;

/// The size of a page.
pub(super) fn page() -> usize {
    rustix::param::page_size()
}

/// What each of so many ranks on this machine should make, of whom so many at most are in one process.
pub(super) fn of_machine(ranks: usize, together: usize) -> usize {
    let addresses = limit(Resource::As).saturating_sub(used_addresses());
    default_size(Memory::here().limit(), addresses, ranks, together)
}

/// The sizes to try in turn for an arena of at least so many bytes: fewer and fewer, but not too
/// few. None is larger than a file may be, as making it would end the process with a signal.
pub(super) fn attempts(bytes: usize) -> Result<impl Iterator<Item = usize>, ArenaError> {
    descending(bytes, limit(Resource::Fsize))
}

/// The size of a peer's arena, if it can be one.
pub(super) fn of_peer(bytes: u64) -> Option<usize> {
    let sane = bytes > 0 && bytes <= MOST as u64 && bytes.is_multiple_of(STEP as u64);
    sane.then_some(bytes as usize)
}

/// Of the addresses that are left, half are for all arenas together, and the others for the rest of the
/// program and for the arenas of its next groups. Each rank of a process maps the arenas of all ranks.
fn default_size(memory: u64, addresses: u64, ranks: usize, together: usize) -> usize {
    let mappings = (ranks.max(1) as u64).saturating_mul(together.max(1) as u64);
    let shared = (addresses / 2).min(ADDRESSES) / mappings;
    let wanted = memory.max(1).next_multiple_of(GIB).min(shared).max(LEAST as u64);
    usize::try_from(wanted).unwrap_or(MOST)
}

fn descending(bytes: usize, file_limit: u64) -> Result<impl Iterator<Item = usize>, ArenaError> {
    let wanted = whole(bytes);
    let least = wanted.min(LEAST);
    let allowed = usize::try_from(file_limit).unwrap_or(MOST) / STEP * STEP;
    if allowed < least {
        return Err(ArenaError::FileLimit { least, limit: file_limit });
    }
    let halved = move |size: &usize| (*size > least).then(|| whole(size / 2).max(least));
    Ok(std::iter::successors(Some(wanted.min(allowed)), halved))
}

fn whole(bytes: usize) -> usize {
    bytes.max(1).checked_next_multiple_of(STEP).unwrap_or(MOST).min(MOST)
}

fn limit(resource: Resource) -> u64 {
    rustix::process::getrlimit(resource).current.unwrap_or(u64::MAX)
}

/// How many addresses this process has given away: all of them count, whether or not they are used. None where the
/// system does not tell.
fn used_addresses() -> u64 {
    let pages = Root(Path::new("/")).text("proc/self/statm");
    let pages = pages.as_ref().and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    pages.unwrap_or_default().saturating_mul(page() as u64)
}

const GIB: u64 = 1 << 30;
/// Arenas are whole huge pages.
pub(super) const STEP: usize = 2 << 20;
/// An arena is not made smaller than this, unless it was asked for.
const LEAST: usize = 256 << 20;
/// Half of what a process can address on the machines we know.
const ADDRESSES: u64 = 64 << 40;
const MOST: usize = ADDRESSES as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_as_large_as_the_memory_in_whole_gibibytes() {
        assert_eq!(default_size(23 * GIB + 5, u64::MAX, 8, 1) as u64, 24 * GIB);
        assert_eq!(default_size(0, u64::MAX, 8, 8) as u64, GIB);
    }

    #[test]
    fn many_ranks_share_the_addresses_there_are() {
        assert_eq!(default_size(4 << 40, u64::MAX, 128, 1) as u64, 512 * GIB);
        assert_eq!(default_size(64 * GIB, 32 * GIB, 4, 1) as u64, 4 * GIB);
        assert_eq!(default_size(64 * GIB, GIB, 64, 1), LEAST);
    }

    /// Of these ranks a process has 1, 2 or all, and its groups come one after the other.
    #[test]
    fn what_the_ranks_of_a_process_map_leaves_as_many_addresses_as_it_takes() {
        for (ranks, together) in [(1, 1), (4, 1), (4, 2), (4, 4), (0, 0), (1 << 40, 1 << 40)] {
            let mut left = 512 * GIB;
            for _ in 0..3 {
                let size = default_size(256 * GIB, left, ranks, together);
                if size == LEAST {
                    break;
                }
                let mapped = size as u64 * (ranks.max(1) * together.max(1)) as u64;
                assert!(mapped <= left / 2, "{ranks} ranks, {together} of them together");
                left -= mapped;
            }
        }
        assert_eq!(default_size(64 * GIB, 0, 2, 2), LEAST);
    }

    #[test]
    fn this_process_has_given_addresses_away() {
        assert!(used_addresses() > page() as u64);
    }

    #[test]
    fn smaller_sizes_are_tried_down_to_the_least() {
        let sizes = |bytes, limit| descending(bytes, limit).unwrap().collect::<Vec<_>>();
        assert_eq!(sizes(1 << 30, u64::MAX), [1 << 30, 512 << 20, LEAST]);
        assert_eq!(sizes((300 << 20) + 1, u64::MAX), [302 << 20, LEAST]);
        assert_eq!(sizes(1, u64::MAX), [STEP]);
        assert_eq!(sizes(1, STEP as u64), [STEP]);
        assert_eq!(sizes(1 << 30, (300 << 20) + 1), [300 << 20, LEAST]);
        assert_eq!(sizes(usize::MAX, u64::MAX).first(), Some(&MOST));
        assert_eq!(sizes(usize::MAX, u64::MAX).last(), Some(&LEAST));
    }

    #[test]
    fn a_limit_on_files_below_the_least_is_an_error() {
        for (bytes, limit) in [(1 << 30, LEAST as u64 - 1), (1, 4096), (1, 0)] {
            assert!(matches!(descending(bytes, limit).err(), Some(ArenaError::FileLimit { .. })));
        }
    }

    #[test]
    fn a_peer_has_made_whole_huge_pages() {
        assert_eq!(of_peer(STEP as u64), Some(STEP));
        for bytes in [0, 4096, (STEP + 4096) as u64, MOST as u64 + STEP as u64, u64::MAX] {
            assert_eq!(of_peer(bytes), None, "{bytes}");
        }
    }
}
