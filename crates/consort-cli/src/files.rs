//! How many ranks have room on a host, by the files that may be open.
//!
//! The launcher holds four files for each of its ranks: two for its output, one to know it by, one
//! for its lifeline; as it holds the store, one for each rank that uses that; and one to hear what a rank's MPI asks, if it
//! has one. A rank shares its
//! memory with the others of its host, for which it holds two files for each, and three while they
//! meet.

/// How many ranks a launcher can start that may open `limit` files; ranks with an MPI need one more each.
pub(crate) fn most_ranks_of_launcher(limit: u64, by_mpi: bool) -> u64 {
    limit.saturating_sub(OWN) / (LAUNCHER_PER_RANK + u64::from(by_mpi))
}

/// How many ranks of one host can form a group if each may open `limit` files.
pub(crate) fn most_ranks_in_group(limit: u64) -> u64 {
    limit.saturating_sub(OWN) / RANK_PER_RANK
}

/// What a process has open whatever the number of ranks, and what its surroundings left it.
pub(crate) const OWN: u64 = 32;
/// What the launcher needs for each rank.
pub(crate) const LAUNCHER_PER_RANK: u64 = 5;
const RANK_PER_RANK: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_needs_more_for_a_rank_than_another_rank_does() {
        assert_eq!((most_ranks_of_launcher(1024, false), most_ranks_in_group(1024)), (198, 330));
        assert_eq!(most_ranks_of_launcher(1024, true), 165);
        assert_eq!((most_ranks_of_launcher(20, false), most_ranks_in_group(20)), (0, 0));
        assert_eq!(most_ranks_of_launcher(OWN + 3 * LAUNCHER_PER_RANK, false), 3);
    }
}
