//! What MPI is asked to do with memory.

use super::functions::{Arithmetic, Count, Distance};

/// An operation of all ranks of a communicator, on [memory](crate::mpi::Memory) of which each has its own. Parts lie
/// one behind the other.
#[derive(Debug)]
pub(crate) enum Task {
    /// Waits for all.
    Barrier,
    /// Combines what all send, for all.
    Combine { how: Arithmetic, count: usize },
    /// Combines what all send, for one.
    CombineAt { root: usize, how: Arithmetic, count: usize },
    /// Combines what all send, of which each receives its part. The parts are given in numbers.
    CombineParts { how: Arithmetic, parts: Parts },
    /// One's bytes for all, in the memory to receive in: also on the one.
    Spread { root: usize, bytes: usize },
    /// What each sends, for all.
    GatherAll { mine: usize, parts: Parts },
    /// What each has in its own part of the memory to receive in, for all.
    Complete { parts: Parts },
    /// What each sends, for one, who alone has to know of parts that differ.
    Gather { root: usize, mine: usize, parts: Parts },
    /// What one sends for each, who alone has to know of parts that differ.
    Scatter { root: usize, mine: usize, parts: Parts },
    /// What each sends for each.
    Exchange { sent: Parts, received: Parts },
    /// A message: what is sent, or room for what is received, whichever there is.
    Message { bytes: usize, comes: bool },
}

/// Parts of memory, one for each rank. MPI reads their list until it is done.
#[derive(Debug)]
pub(crate) enum Parts {
    /// So many bytes or numbers each.
    Equal(usize),
    /// As many as the list says.
    Each { sizes: Vec<Count>, places: Vec<Distance> },
}

impl Parts {
    /// Parts of these sizes, which may differ from each other.
    pub(crate) fn each(sizes: impl Iterator<Item = usize>) -> Self {
        let sizes: Vec<Count> = sizes.map(|size| size as Count).collect();
        let mut end = 0;
        let place = |&size: &Count| {
            let place = end;
            end += size as Distance;
            place
        };
        let places = sizes.iter().map(place).collect();
        Self::Each { sizes, places }
    }

    /// Parts of these sizes: equal ones if they are, which all ranks have to know.
    pub(crate) fn of(sizes: impl Iterator<Item = usize> + Clone) -> Self {
        let mut others = sizes.clone();
        match others.next() {
            Some(first) if others.all(|size| size == first) => Self::Equal(first),
            _ => Self::each(sizes),
        }
    }

    /// Of one who need not know them.
    pub(crate) fn unknown() -> Self {
        Self::Each { sizes: Vec::new(), places: Vec::new() }
    }

    /// How much they are together, if there are so many.
    fn total(&self, world: usize) -> usize {
        match self {
            Self::Equal(each) => each * world,
            Self::Each { sizes, .. } => sizes.iter().map(|&size| size as usize).sum(),
        }
    }

    /// Whether there is one for each of so many ranks.
    fn is_for(&self, world: usize) -> bool {
        match self {
            Self::Equal(_) => true,
            Self::Each { sizes, places } => sizes.len() == world && places.len() == world,
        }
    }

    fn size(&self, rank: usize) -> usize {
        match self {
            Self::Equal(each) => *each,
            Self::Each { sizes, .. } => sizes[rank] as usize,
        }
    }
}

impl Task {
    /// How many bytes it reads and how many it writes on this of so many ranks.
    ///
    /// # Panics
    /// When it has not a part for each rank, or names a rank that there is not.
    pub(super) fn needs(&self, me: usize, world: usize) -> (usize, usize) {
        match self {
            Self::Barrier => (0, 0),
            Self::Combine { how, count } => (count * how.size, count * how.size),
            Self::CombineAt { root, how, count } => {
                check_root(*root, world);
                (count * how.size, if *root == me { count * how.size } else { 0 })
            }
            Self::CombineParts { how, parts } => {
                check_parts(parts, world);
                (parts.total(world) * how.size, parts.size(me) * how.size)
            }
            Self::Spread { root, bytes } => {
                check_root(*root, world);
                (0, *bytes)
            }
            Self::GatherAll { mine, parts } => {
                check_parts(parts, world);
                assert_eq!(*mine, parts.size(me), "it gives as much as all know");
                (*mine, parts.total(world))
            }
            Self::Complete { parts } => {
                check_parts(parts, world);
                (0, parts.total(world))
            }
            Self::Gather { root, mine, parts } => {
                check_root(*root, world);
                if *root != me {
                    return (*mine, 0);
                }
                check_parts(parts, world);
                (*mine, parts.total(world))
            }
            Self::Scatter { root, mine, parts } => {
                check_root(*root, world);
                if *root != me {
                    return (0, *mine);
                }
                check_parts(parts, world);
                (parts.total(world), *mine)
            }
            Self::Exchange { sent, received } => {
                check_parts(sent, world);
                check_parts(received, world);
                (sent.total(world), received.total(world))
            }
            Self::Message { bytes, comes: false } => (*bytes, 0),
            Self::Message { bytes, comes: true } => (0, *bytes),
        }
    }
}

fn check_root(root: usize, world: usize) {
    assert!(root < world, "the root is one of the ranks");
}

fn check_parts(parts: &Parts, world: usize) {
    assert!(parts.is_for(world), "there is a part for each rank");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        let Parts::Each { sizes, places } = Parts::of([3, 0, 5].into_iter()) else {
            panic!("they differ")
        };
        assert_eq!((&sizes[..], &places[..]), (&[3, 0, 5][..], &[0, 3, 3][..]));
        assert!(matches!(Parts::of([4, 4].into_iter()), Parts::Equal(4)));
        assert!(matches!(Parts::of([].into_iter()), Parts::Each { .. }));
    }

    #[test]
    fn as_much_memory_is_needed_as_is_read_or_written() {
        let uneven = || Parts::each([1, 2, 3].into_iter());
        let needs = |task: Task| task.needs(1, 3);
        assert_eq!(needs(Task::Barrier), (0, 0));
        assert_eq!(needs(Task::GatherAll { mine: 2, parts: uneven() }), (2, 6));
        assert_eq!(needs(Task::Complete { parts: uneven() }), (0, 6));
        assert_eq!(needs(Task::Gather { root: 1, mine: 2, parts: uneven() }), (2, 6));
        assert_eq!(needs(Task::Gather { root: 0, mine: 2, parts: Parts::unknown() }), (2, 0));
        assert_eq!(needs(Task::Scatter { root: 1, mine: 2, parts: uneven() }), (6, 2));
        assert_eq!(needs(Task::Scatter { root: 0, mine: 2, parts: Parts::Equal(2) }), (0, 2));
        assert_eq!(needs(Task::Exchange { sent: Parts::Equal(5), received: uneven() }), (15, 6));
        assert_eq!(needs(Task::Spread { root: 2, bytes: 9 }), (0, 9));
    }

    #[test]
    #[should_panic = "there is a part for each rank"]
    fn a_list_that_is_too_short_is_refused() {
        Task::GatherAll { mine: 0, parts: Parts::unknown() }.needs(0, 2);
    }
}
