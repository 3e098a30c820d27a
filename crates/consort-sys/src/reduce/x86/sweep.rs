//! The loop that every reduction is, many numbers at a time.

use std::arch::x86_64::__m256i;

use super::super::blocks::{blocks, load, store};
use super::super::combine::{Combine, Scale};
use super::super::lane::Lane;
use crate::view::{Source, Target};

/// The loop over single numbers, which the compiler may use AVX2 for.
///
/// # Safety
/// As [`Run`](super::super::blocks::Run) says.
#[target_feature(enable = "avx2,f16c")]
pub(in super::super) unsafe fn numbers<L: Lane, C: Combine<L::Wide>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    // SAFETY: the caller promised what is needed here.
    unsafe { blocks::<L, C>(scale.into(), targets, sources) }
}

/// With registers of AVX2: many side by side, then single ones, then parts of one.
///
/// # Safety
/// As [`Run`](super::super::blocks::Run) says.
#[target_feature(enable = "avx2,f16c")]
pub(in super::super) unsafe fn registers<R: Lane, C: Combine<R::Wide>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    let way = C::from(scale);
    let mut at = 0;
    // As many as leave some of the sixteen registers for operands.
    if size_of::<R::Wide>() > size_of::<__m256i>() {
        // SAFETY: the caller promised what is needed here and below.
        unsafe { sweep::<R, R::Stored, C, 4>(way, targets, sources, &mut at) };
    } else {
        // SAFETY: as above.
        unsafe { sweep::<R, R::Stored, C, 8>(way, targets, sources, &mut at) };
    }
    // SAFETY: as above.
    unsafe { sweep::<R, R::Stored, C, 1>(way, targets, sources, &mut at) };
    // SAFETY: as above.
    unsafe { sweep::<R, u128, C, 1>(way, targets, sources, &mut at) };
    // SAFETY: as above.
    unsafe { sweep::<R, u64, C, 1>(way, targets, sources, &mut at) };
    if R::ELEMENT <= 4 {
        // SAFETY: as above.
        unsafe { sweep::<R, u32, C, 1>(way, targets, sources, &mut at) };
    }
    if R::ELEMENT <= 2 {
        // SAFETY: as above.
        unsafe { sweep::<R, u16, C, 1>(way, targets, sources, &mut at) };
    }
    if R::ELEMENT <= 1 {
        // SAFETY: as above.
        unsafe { sweep::<R, u8, C, 1>(way, targets, sources, &mut at) };
    }
}

/// Combines `N` registers side by side, from a byte on for as long as there are so many, and moves
/// on to where it ended. Of each register only the bytes of a `P` are used, from its beginning on.
/// All sources are read before a target is written, so that they may be the same.
///
/// # Safety
/// As [`Run`](super::super::blocks::Run) says, and there must be so many bytes. A register must be
/// as long as a `P`, or longer.
#[inline(always)]
unsafe fn sweep<R: Lane, P: Copy, C: Combine<R::Wide>, const N: usize>(
    way: C,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
    at: &mut usize,
) {
    let (first, further) = sources.split_first().expect("there is a source");
    while first.len() - *at >= N * size_of::<P>() {
        let place = |i| *at + i * size_of::<P>();
        // SAFETY: so many bytes are left in the first source.
        let mut sums = [way.first(unsafe { load::<R, P>(*first, *at) }); N];
        for (i, sum) in sums.iter_mut().enumerate().skip(1) {
            // SAFETY: as above.
            *sum = way.first(unsafe { load::<R, P>(*first, place(i)) });
        }
        for source in further {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: it is as long as the first.
                *sum = way.join(*sum, unsafe { load::<R, P>(*source, place(i)) });
            }
        }
        for sum in &mut sums {
            *sum = way.last(*sum);
        }
        for target in targets {
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: it is as long as the first source.
                unsafe { store::<R, P>(*target, place(i), *sum) };
            }
        }
        *at = place(N);
    }
}
