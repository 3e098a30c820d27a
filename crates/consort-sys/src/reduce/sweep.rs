//! The two loops that every reduction is made of.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256i;
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
    unsafe { blocks::<L, C>(scale.into(), targets, sources, 0) }
}

/// The same code, which the compiler may use AVX2 for.
///
/// # Safety
/// As [`Run`] says.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn plain_avx2<L: Lane, C: Combine<L::Wide>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    // SAFETY: the caller promised what is needed here.
    unsafe { blocks::<L, C>(scale.into(), targets, sources, 0) }
}

/// With registers `R` of AVX2, and what does not fill one as single numbers `L`.
///
/// # Safety
/// As [`Run`] says.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn registers_avx2<R: Lane, L: Lane, C>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) where
    C: Combine<R::Wide> + Combine<L::Wide>,
{
    let way = C::from(scale);
    // As many registers side by side as leave some of the sixteen for operands.
    let done = if size_of::<R::Wide>() > size_of::<__m256i>() {
        // SAFETY: the caller promised what is needed here.
        unsafe { sweep::<R, C, 4>(way, targets, sources, 0) }
    } else {
        // SAFETY: as above.
        unsafe { sweep::<R, C, 8>(way, targets, sources, 0) }
    };
    // SAFETY: as above.
    let done = unsafe { sweep::<R, C, 1>(way, targets, sources, done) };
    // SAFETY: as above.
    unsafe { blocks::<L, C>(way, targets, sources, done) };
}

/// Combines `N` registers side by side, from a byte on for as long as there are so many; says
/// where it ended. All sources are read before a target is written, so that they may be the same.
///
/// # Safety
/// As [`Run`] says, and there must be so many bytes.
#[inline(always)]
unsafe fn sweep<R: Lane, C: Combine<R::Wide>, const N: usize>(
    way: C,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
    mut at: usize,
) -> usize {
    let (first, further) = sources.split_first().expect("there is a source");
    while first.len() - at >= N * size_of::<R::Stored>() {
        let place = |i| at + i * size_of::<R::Stored>();
        // SAFETY: so many bytes are left in the first source.
        let mut sums = [way.first(unsafe { load::<R>(*first, at) }); N];
        for (i, sum) in sums.iter_mut().enumerate().skip(1) {
            // SAFETY: as above.
            *sum = way.first(unsafe { load::<R>(*first, place(i)) });
        }
        for source in further {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: it is as long as the first.
                *sum = way.join(*sum, unsafe { load::<R>(*source, place(i)) });
            }
        }
        for sum in &mut sums {
            *sum = way.last(*sum);
        }
        for target in targets {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: it is as long as the first source.
                unsafe { store::<R>(*target, place(i), *sum) };
            }
        }
        at = place(N);
    }
    at
}

/// Combines single numbers, from a byte on to the end, in blocks that stay in the nearest cache.
/// A block of all sources is read before any is written, so that they may be the same.
///
/// The compiler makes registers of these loops: none of them reads where it writes.
///
/// # Safety
/// As [`Run`] says, and there must be so many bytes.
#[inline(always)]
unsafe fn blocks<L: Lane, C: Combine<L::Wide>>(
    way: C,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
    mut at: usize,
) {
    let (first, further) = sources.split_first().expect("there is a source");
    let mut sums = [const { MaybeUninit::<L::Wide>::uninit() }; BLOCK];
    while at < first.len() {
        let count = BLOCK.min((first.len() - at) / size_of::<L::Stored>());
        let sums = &mut sums[..count];
        let place = |i| at + i * size_of::<L::Stored>();
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: so many numbers are left in the first source.
            sum.write(way.first(unsafe { load::<L>(*first, place(i)) }));
        }
        for source in further {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: it was written above.
                let before = unsafe { sum.assume_init() };
                // SAFETY: it is as long as the first.
                sum.write(way.join(before, unsafe { load::<L>(*source, place(i)) }));
            }
        }
        for target in targets {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: it was written above.
                let sum = way.last(unsafe { sum.assume_init() });
                // SAFETY: it is as long as the first source.
                unsafe { store::<L>(*target, place(i), sum) };
            }
        }
        at = place(count);
    }
}

/// # Safety
/// There must be a lane at this byte, and the processor must have its instructions.
#[inline(always)]
unsafe fn load<L: Lane>(source: Source<'_>, at: usize) -> L::Wide {
    // SAFETY: the caller says that it is within the source.
    let place = unsafe { source.as_ptr().add(at) };
    // SAFETY: as above; it is mapped readable as its makers promised, and any bits will do.
    let stored = unsafe { place.cast::<L::Stored>().read_unaligned() };
    // SAFETY: the caller knows of the instructions.
    unsafe { L::widen(stored) }
}

/// # Safety
/// There must be room for a lane at this byte.
#[inline(always)]
unsafe fn store<L: Lane>(target: Target<'_>, at: usize, wide: L::Wide) {
    // SAFETY: the caller says that it is within the target.
    let place = unsafe { target.as_mut_ptr().add(at) };
    // SAFETY: as above; it is mapped writable, and no reference to it exists, as its makers
    // promised.
    unsafe { place.cast::<L::Stored>().write_unaligned(L::narrow(wide)) }
}

/// So many single numbers are combined at a time.
const BLOCK: usize = 256;
