//! The loop that every reduction is, one number after the other.

use std::mem::MaybeUninit;

use super::combine::{Combine, Scale};
use super::lane::Lane;
use crate::view::{Source, Target};

/// A way to combine, made for one dtype and one kind of processor.
///
/// # Safety
/// There must be a source. All targets and sources must be equally long, a whole number of
/// elements. The processor must have the instructions that the function is compiled for.
pub(super) type Run = unsafe fn(Scale, &[Target<'_>], &[Source<'_>]);

/// With what every processor of this architecture has.
///
/// # Safety
/// As [`Run`] says.
pub(super) unsafe fn plain<L: Lane, C: Combine<L::Wide>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    // SAFETY: the caller promised what is needed here.
    unsafe { blocks::<L, C>(scale.into(), targets, sources) }
}

/// Combines single numbers, in blocks that stay in the nearest cache. A block of all sources is
/// read before any is written, so that they may be the same.
///
/// The compiler makes registers of these loops: none of them reads where it writes.
///
/// # Safety
/// As [`Run`] says.
#[inline(always)]
pub(super) unsafe fn blocks<L: Lane, C: Combine<L::Wide>>(
    way: C,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    let (first, further) = sources.split_first().expect("there is a source");
    let mut at = 0;
    let mut sums = [const { MaybeUninit::<L::Wide>::uninit() }; BLOCK];
    while at < first.len() {
        let count = BLOCK.min((first.len() - at) / size_of::<L::Stored>());
        let sums = &mut sums[..count];
        let place = |i| at + i * size_of::<L::Stored>();
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: so many numbers are left in the first source.
            sum.write(way.first(unsafe { load::<L, L::Stored>(*first, place(i)) }));
        }
        for source in further {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: it was written above.
                let before = unsafe { sum.assume_init() };
                // SAFETY: it is as long as the first.
                sum.write(way.join(before, unsafe { load::<L, L::Stored>(*source, place(i)) }));
            }
        }
        for target in targets {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: it was written above.
                let sum = way.last(unsafe { sum.assume_init() });
                // SAFETY: it is as long as the first source.
                unsafe { store::<L, L::Stored>(*target, place(i), sum) };
            }
        }
        at = place(count);
    }
}

/// Reads a lane, or the part of it that fits in a `P`, with zeros behind.
///
/// # Safety
/// There must be a `P` at this byte, and the processor must have the instructions of the lane.
#[inline(always)]
pub(super) unsafe fn load<L: Lane, P: Copy>(source: Source<'_>, at: usize) -> L::Wide {
    // SAFETY: the caller says that it is within the source.
    let place = unsafe { source.as_ptr().add(at) };
    // SAFETY: as above; it is mapped readable as its makers promised, and any bits will do.
    let part = unsafe { place.cast::<P>().read_unaligned() };
    let mut stored = MaybeUninit::<L::Stored>::zeroed();
    // SAFETY: a lane is at least as long as a part of it.
    unsafe { stored.as_mut_ptr().cast::<P>().write_unaligned(part) };
    // SAFETY: any bits will do.
    let stored = unsafe { stored.assume_init() };
    // SAFETY: the caller knows of the instructions.
    unsafe { L::widen(stored) }
}

/// Writes a lane, or the part of it that fits in a `P`.
///
/// # Safety
/// There must be room for a `P` at this byte.
#[inline(always)]
pub(super) unsafe fn store<L: Lane, P: Copy>(target: Target<'_>, at: usize, wide: L::Wide) {
    let stored = L::narrow(wide);
    // SAFETY: a lane is at least as long as a part of it.
    let part = unsafe { (&raw const stored).cast::<P>().read_unaligned() };
    // SAFETY: the caller says that it is within the target.
    let place = unsafe { target.as_mut_ptr().add(at) };
    // SAFETY: as above; it is mapped writable, and no reference to it exists, as its makers
    // promised.
    unsafe { place.cast::<P>().write_unaligned(part) }
}

/// So many single numbers are combined at a time.
const BLOCK: usize = 256;
