//! The loop that every reduction is.

use super::combine::{Combine, Scale};
use super::lane::Lane;
use crate::view::{Source, Target};

/// A way to combine, made for one dtype and one kind of processor.
///
/// # Safety
/// There must be a source, all targets and sources must be equally long, a whole number of
/// elements, and the processor must have the instructions that the function is compiled for.
pub(super) type Run = unsafe fn(Scale, &[Target<'_>], &[Source<'_>]);

/// A way to combine that is known for any number of these lanes at a time.
pub(super) trait Combines<L: Lane>:
    Combine<[L::Wide; 1]> + Combine<[L::Wide; FEW]> + Combine<[L::Wide; MANY]>
{
}

impl<L: Lane, C> Combines<L> for C where
    C: Combine<[L::Wide; 1]> + Combine<[L::Wide; FEW]> + Combine<[L::Wide; MANY]>
{
}

/// With what every processor of this architecture has.
///
/// # Safety
/// As [`Run`] says.
pub(super) unsafe fn plain<L: Lane, C: Combines<L>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    // SAFETY: the caller promised the same.
    unsafe { numbers::<L, C>(scale, targets, sources) }
}

/// The same code, which the compiler may use AVX2 for.
///
/// # Safety
/// As [`Run`] says.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn plain_avx2<L: Lane, C: Combines<L>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    // SAFETY: the caller promised the same.
    unsafe { numbers::<L, C>(scale, targets, sources) }
}

/// With registers written for AVX2, and the numbers left over one by one.
///
/// # Safety
/// As [`Run`] says.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn registers_avx2<R: Lane, L: Lane, C: Combines<R> + Combines<L>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    let way = C::from(scale);
    // SAFETY: the caller promised the same.
    let done = unsafe { sweep::<R, C, FEW>(way, targets, sources, 0) };
    // SAFETY: the caller promised the same.
    let done = unsafe { sweep::<R, C, 1>(way, targets, sources, done) };
    // SAFETY: the caller promised the same.
    unsafe { sweep::<L, C, 1>(way, targets, sources, done) };
}

/// # Safety
/// As [`Run`] says.
#[inline(always)]
unsafe fn numbers<L: Lane, C: Combines<L>>(
    scale: Scale,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
) {
    let way = C::from(scale);
    // SAFETY: the caller promised the same.
    let done = unsafe { sweep::<L, C, MANY>(way, targets, sources, 0) };
    // SAFETY: the caller promised the same.
    unsafe { sweep::<L, C, 1>(way, targets, sources, done) };
}

/// Combines `N` lanes at a time, from a byte on for as long as there are so many; says where it
/// ended. All sources are read before a target is written, so that they may be the same.
///
/// # Safety
/// As [`Run`] says.
#[inline(always)]
unsafe fn sweep<L: Lane, C: Combine<[L::Wide; N]>, const N: usize>(
    way: C,
    targets: &[Target<'_>],
    sources: &[Source<'_>],
    mut at: usize,
) -> usize {
    let (first, further) = sources.split_first().expect("there is a source");
    while first.len() - at >= size_of::<[L::Stored; N]>() {
        // SAFETY: so many bytes are left in the first source.
        let mut sum = way.first(unsafe { load::<L, N>(*first, at) });
        for source in further {
            // SAFETY: it is as long as the first.
            sum = way.join(sum, unsafe { load::<L, N>(*source, at) });
        }
        let result = way.last(sum).map(L::narrow);
        for target in targets {
            // SAFETY: it is as long as the first source.
            let place = unsafe { target.as_mut_ptr().add(at) };
            // SAFETY: as above; it is mapped writable and no reference to it exists, as its makers
            // promised.
            unsafe { place.cast::<[L::Stored; N]>().write_unaligned(result) };
        }
        at += size_of::<[L::Stored; N]>();
    }
    at
}

/// # Safety
/// So many lanes must be left in the source, and the processor must have their instructions.
#[inline(always)]
unsafe fn load<L: Lane, const N: usize>(source: Source<'_>, at: usize) -> [L::Wide; N] {
    // SAFETY: the caller says that it is within the source.
    let place = unsafe { source.as_ptr().add(at) };
    // SAFETY: as above; it is mapped readable as its makers promised, and any bits will do.
    let stored = unsafe { place.cast::<[L::Stored; N]>().read_unaligned() };
    stored.map(|one| {
        // SAFETY: the caller knows of the instructions.
        unsafe { L::widen(one) }
    })
}

/// So many registers are combined side by side: as many as there are, with room for an operand.
const FEW: usize = 4;

/// So many single numbers are, for the compiler to put into registers.
const MANY: usize = 64;
