//! Bytes that may be written while they are looked at.
//!
//! A collective works on memory that Rust's references cannot describe: another process may write
//! it, or the result may go to the very place an operand is read from. A [`Source`] is bytes that
//! can be read, a [`Target`] bytes that can be written too. Both are bounded, live no longer than
//! what they look at, and may overlap each other freely. They are never turned into references.
//!
//! What another process writes at the same time is read as some mixture of old and new bytes. When
//! the bytes are whole is the business of the protocol that hands the memory over.
//!
//! The bytes may lie on a [device](Space), where this processor cannot reach them: then they are only
//! named here, for an engine that can.

use std::cell::Cell;
use std::collections::TryReserveError;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};

use crate::dtype::{Dtype, Element};

/// Which memory bytes lie in.
///
/// ```
/// use consort_sys::view::Space;
///
/// assert_eq!(Space::default(), Space::Host);
/// assert_eq!(Space::Device(1).to_string(), "device 1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Space {
    /// This process's own, which its processor reads and writes.
    #[default]
    Host,
    /// That of an accelerator, by its number in this process.
    Device(u16),
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Device(number) => write!(f, "device {number}"),
        }
    }
}

/// Bytes to be read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    start: NonNull<u8>,
    len: usize,
    space: Space,
    // Cells may change under a reader, and neither they nor this may go to another thread.
    life: PhantomData<&'a [Cell<u8>]>,
}

impl<'a> Source<'a> {
    /// Looks at memory that no Rust reference is known for.
    ///
    /// # Safety
    /// For `'a` all `len` bytes from `start` on must be mapped readable, and no reference through which they
    /// could be written may exist.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, space: Space::Host, life: PhantomData }
    }

    /// Names memory of a device, which this processor does not touch.
    ///
    /// # Safety
    /// For `'a`, and until that device's default stream has done all that it was given meanwhile, all `len` bytes
    /// from `start` on must be memory of that device, and readable there. Memory that is given back in the order
    /// of that stream, or when the device is idle, is there for as long.
    pub unsafe fn on_device(start: NonNull<u8>, len: usize, device: u16) -> Self {
        Self { start, len, space: Space::Device(device), life: PhantomData }
    }

    /// Which memory they lie in.
    #[inline]
    pub fn space(self) -> Space {
        self.space
    }

    /// How many bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where they begin.
    pub fn as_ptr(self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Some of them.
    ///
    /// # Panics
    /// When the range is not within them.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> Self {
        Self { start: within(self.start, self.len, &range), len: range.len(), ..self }
    }

    /// A copy of them.
    ///
    /// # Panics
    /// When they are not on the host.
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        Target::from(&mut bytes[..]).copy_from(self);
        bytes
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        let start = NonNull::from(bytes).cast();
        Self { start, len: bytes.len(), space: Space::Host, life: PhantomData }
    }
}

impl<'a> From<Target<'a>> for Source<'a> {
    fn from(Target { start, len, space, .. }: Target<'a>) -> Self {
        Self { start, len, space, life: PhantomData }
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, self.start, self.len, self.space)
    }
}

/// Bytes to be written, or read.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    start: NonNull<u8>,
    len: usize,
    space: Space,
    // Whether these are the bytes of `bool`, which nothing but 0 and 1 may be written to.
    truths: bool,
    life: PhantomData<&'a [Cell<u8>]>,
}

impl<'a> Target<'a> {
    /// Looks at memory that no Rust reference is known for.
    ///
    /// # Safety
    /// For `'a` all `len` bytes from `start` on must be mapped readable and writable, and no
    /// reference to them may exist.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, space: Space::Host, truths: false, life: PhantomData }
    }

    /// Names memory of a device, which this processor does not touch.
    ///
    /// # Safety
    /// As for [`Source::on_device`], and they must be writable there.
    pub unsafe fn on_device(start: NonNull<u8>, len: usize, device: u16) -> Self {
        Self { start, len, space: Space::Device(device), truths: false, life: PhantomData }
    }

    /// Which memory they lie in.
    #[inline]
    pub fn space(self) -> Space {
        self.space
    }

    /// How many bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where they begin. Whoever writes there minds [`holds_truths`](Self::holds_truths).
    pub fn as_mut_ptr(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Whether they are the bytes of `bool`, so that nothing but 0 and 1 may be written.
    pub fn holds_truths(self) -> bool {
        self.truths
    }

    /// Some of them.
    ///
    /// # Panics
    /// When the range is not within them.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> Self {
        Self { start: within(self.start, self.len, &range), len: range.len(), ..self }
    }

    /// Overwrites all of them. The two may overlap. In place of a byte that no `bool` has, a
    /// target made from `bool` receives a 1.
    ///
    /// # Panics
    /// When the lengths differ, or one of them is not on the host.
    #[inline]
    pub fn copy_from(self, source: Source<'_>) {
        assert_eq!(self.len, source.len, "a copy is as long as what it is made of");
        on_host(self.space);
        on_host(source.space);
        // SAFETY: both are mapped for their lengths, which are equal, and no reference to the
        // target exists, as its makers promised; `copy` allows overlap.
        unsafe { ptr::copy(source.as_ptr(), self.as_mut_ptr(), self.len) }
        self.make_truths();
    }

    /// As [`copy_from`](Self::copy_from), past the caches of the processor: for what is larger than
    /// they are, or will not be read soon. If the two overlap, what is written is a mixture.
    ///
    /// # Panics
    /// When the lengths differ, or one of them is not on the host.
    pub fn stream_from(self, source: Source<'_>) {
        let (from, to) = (source.as_ptr(), self.as_mut_ptr());
        let is_apart = from.addr().abs_diff(to.addr()) >= self.len;
        if self.truths || !is_apart {
            return self.copy_from(source);
        }
        assert_eq!(self.len, source.len, "a copy is as long as what it is made of");
        on_host(self.space);
        on_host(source.space);
        // SAFETY: both are mapped for their lengths, which are equal, and no reference to the
        // target exists, as its makers promised; they are apart.
        unsafe { crate::stream::copy(from, to, self.len) }
    }

    /// Sets every byte to the same value, or for `bool` to 1 instead of any other than 0.
    ///
    /// # Panics
    /// When they are not on the host.
    pub fn fill(self, byte: u8) {
        on_host(self.space);
        let byte = if self.truths { u8::from(byte != 0) } else { byte };
        // SAFETY: it is mapped writable for its length and no reference to it exists, as its
        // makers promised.
        unsafe { ptr::write_bytes(self.as_mut_ptr(), byte, self.len) }
    }

    /// Sets every byte of `bool` that is not 0 to 1.
    #[inline]
    pub(crate) fn make_truths(self) {
        if !self.truths {
            return;
        }
        on_host(self.space);
        for at in 0..self.len {
            // SAFETY: the offset is within the memory that `start` is the beginning of.
            let byte = unsafe { self.start.add(at) };
            // SAFETY: it is mapped readable, and no reference to it exists.
            let truth = u8::from(unsafe { byte.read() } != 0);
            // SAFETY: it is mapped writable, and no reference to it exists.
            unsafe { byte.write(truth) };
        }
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        // SAFETY: for as long as the borrow lasts the bytes are nobody else's.
        unsafe { Self::from_raw(NonNull::from(&mut *bytes).cast(), bytes.len()) }
    }
}

/// Whatever is written, no byte but 0 and 1 arrives.
impl<'a> From<&'a mut [bool]> for Target<'a> {
    fn from(truths: &'a mut [bool]) -> Self {
        // SAFETY: for as long as the borrow lasts the bytes are nobody else's.
        let bytes = unsafe { Self::from_raw(NonNull::from(&mut *truths).cast(), truths.len()) };
        Self { truths: true, ..bytes }
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, self.start, self.len, self.space)
    }
}

/// So many elements, copied from parts that lie anywhere, one behind the other. Their memory is written once:
/// it is not zero before.
///
/// ```
/// use consort_sys::dtype::Element;
/// use consort_sys::view::collect;
///
/// let (head, tail) = ([1.5_f32], [2.5, 3.5]);
/// let all: Vec<f32> = collect(3, [f32::source(&head), f32::source(&tail)])?;
/// assert_eq!(all, [1.5, 2.5, 3.5]);
/// # Ok::<(), std::collections::TryReserveError>(())
/// ```
///
/// # Errors
/// When there is no memory for them.
///
/// # Panics
/// When the parts have not as many bytes.
pub fn collect<'a, T: Element>(
    count: usize,
    parts: impl IntoIterator<Item = Source<'a>>,
) -> Result<Vec<T>, TryReserveError> {
    let mut elements = Vec::<T>::new();
    elements.try_reserve_exact(count)?;
    let start = NonNull::from(elements.spare_capacity_mut()).cast();
    // Not read before it is written.
    let truths = T::DTYPE == Dtype::Bool;
    let (len, space) = (count * size_of::<T>(), Space::Host);
    let room = Target { start, len, space, truths, life: PhantomData };
    let mut at = 0;
    for part in parts {
        room.slice(at..at + part.len()).copy_from(part);
        at += part.len();
    }
    assert_eq!(at, room.len, "a copy is as long as what it is made of");
    // SAFETY: so many were reserved, and all their bytes were written: every bit pattern is an element, and
    // a copy to `bool` leaves nothing but 0 and 1.
    unsafe { elements.set_len(count) };
    Ok(elements)
}

/// What is not here cannot be touched.
#[inline]
fn on_host(space: Space) {
    assert!(space == Space::Host, "memory of {space} is not touched by the host");
}

fn describe(
    f: &mut fmt::Formatter<'_>,
    start: NonNull<u8>,
    len: usize,
    space: Space,
) -> fmt::Result {
    write!(f, "{len} bytes at {start:p}")?;
    match space {
        Space::Host => Ok(()),
        device => write!(f, " of {device}"),
    }
}

#[inline]
fn within(start: NonNull<u8>, len: usize, range: &Range<usize>) -> NonNull<u8> {
    assert!(range.start <= range.end && range.end <= len, "{range:?} is not within {len} bytes");
    // SAFETY: the offset is within the memory that `start` is the beginning of.
    unsafe { start.add(range.start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_overlap_what_it_is_made_of() {
        let mut bytes = *b"abcdef";
        let all = Target::from(&mut bytes[..]);
        all.slice(2..6).copy_from(all.slice(0..4).into());
        assert_eq!(&bytes, b"ababcd");
    }

    #[test]
    fn what_is_collected_has_the_bytes_of_all_parts() {
        let bytes = *b"abcdef";
        let all = Source::from(&bytes[..]);
        let parts = [all.slice(4..6), all.slice(0..0), all.slice(0..2)];
        assert_eq!(
            collect::<u16>(2, parts).unwrap(),
            [b"ef", b"ab"].map(|it| u16::from_ne_bytes(*it))
        );
        assert_eq!(
            collect::<bool>(3, [Source::from(&[0_u8, 7, 1][..])]).unwrap(),
            [false, true, true]
        );
        assert!(collect::<f64>(0, []).unwrap().is_empty());
        assert!(collect::<u64>(usize::MAX, []).is_err());
    }

    #[test]
    #[should_panic(expected = "as long as")]
    fn what_is_collected_is_whole() {
        let _ = collect::<u16>(2, [Source::from(&[1_u8, 2, 3][..])]);
    }

    #[test]
    fn memory_that_is_only_an_address_can_be_read() {
        let bytes = *b"abcdef";
        let start = NonNull::from(&bytes).cast();
        // SAFETY: they live to the end, and nobody writes them.
        let all = unsafe { Source::from_raw(start, bytes.len()) };
        assert_eq!(all.slice(2..4).to_vec(), b"cd");
    }

    #[test]
    fn a_part_is_where_it_should_be() {
        let bytes = *b"abcdef";
        assert_eq!(Source::from(&bytes[..]).slice(1..5).slice(1..3).to_vec(), b"cd");
        assert!(Source::from(&bytes[..]).slice(6..6).is_empty());
    }

    #[test]
    #[should_panic(expected = "is not within 3 bytes")]
    fn a_part_beyond_the_end_is_refused() {
        let _ = Source::from(&[1_u8, 2, 3][..]).slice(2..4);
    }

    #[test]
    fn memory_of_a_device_is_named_and_not_touched() {
        let start = NonNull::<u8>::without_provenance(0x1000.try_into().unwrap());
        // SAFETY: nobody looks there.
        let there = unsafe { Target::on_device(start, 64, 3) };
        let part = Source::from(there.slice(16..32));
        assert_eq!((part.space(), part.len()), (Space::Device(3), 16));
        assert_eq!(format!("{part:?}"), "16 bytes at 0x1010 of device 3");
        let mut here = [0_u8; 16];
        let refuses = |touch: &mut dyn FnMut()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(touch)).is_err()
        };
        assert!(refuses(&mut || Target::from(&mut here[..]).copy_from(part)));
        assert!(refuses(&mut || there.fill(0)));
        assert!(refuses(&mut || drop(part.to_vec())));
    }

    #[test]
    #[should_panic(expected = "as long as")]
    fn a_copy_of_another_length_is_refused() {
        let mut bytes = [0; 2];
        Target::from(&mut bytes[..]).copy_from((&[1_u8, 2, 3][..]).into());
    }
}
