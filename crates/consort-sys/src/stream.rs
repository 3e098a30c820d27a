//! Copies that leave the caches to others.
//!
//! A processor that writes to memory first fetches what was there, and what it writes drives
//! something else out of its caches. For a result that is larger than the caches both are in vain.
//! x86 has stores that go past the caches, line by line.

/// Copies `len` bytes past the caches, as far as this processor can.
///
/// # Safety
/// All `len` bytes from `from` on must be mapped readable and all from `to` on writable, with no
/// reference to the latter. The two must not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE * LINE;
    // SAFETY: it is within what the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, head) };
    // SAFETY: these are the whole lines after it, and `to` is aligned to them there.
    unsafe { copy_lines(from.wrapping_add(head), to.wrapping_add(head), lines) };
    let done = head + lines;
    let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
    // SAFETY: it is the rest.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
}

/// # Safety
/// As [`copy`], with `to` at the beginning of a line and `len` a number of whole lines.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
    };

    const PARTS: usize = LINE / size_of::<__m128i>();
    for at in (0..len).step_by(LINE) {
        // SAFETY: it is only a hint, for which any address will do.
        unsafe { _mm_prefetch(from.wrapping_add(at + AHEAD).cast(), _MM_HINT_T0) };
        let (from, to) =
            (from.wrapping_add(at).cast::<__m128i>(), to.wrapping_add(at).cast::<__m128i>());
        // SAFETY: the line is within what may be read, and any alignment will do.
        let line: [__m128i; PARTS] =
            std::array::from_fn(|part| unsafe { _mm_loadu_si128(from.wrapping_add(part)) });
        for (part, bytes) in line.into_iter().enumerate() {
            // SAFETY: the line is within what may be written, and it is aligned to itself.
            unsafe { _mm_stream_si128(to.wrapping_add(part), bytes) };
        }
    }
    // Such stores keep to no order otherwise: what is said later has to be seen later.
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_sfence() };
}

/// # Safety
/// As [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller promises the same.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// How far ahead the source is fetched. The stores wait for the loads before them, and while they
/// wait nothing else does the fetching.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1024;
/// What a processor hands over at a time.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_whatever_the_lengths_and_alignments() {
        let source: Vec<u8> = (0..1000).map(|i| (i * 7 % 251) as u8).collect();
        for from in [0, 1, 15, 16, 63, 64] {
            for to in [0, 1, 17, 63, 64] {
                for len in [0, 1, 63, 64, 65, 127, 128, 200, 777] {
                    let mut target = vec![0xee_u8; 1000];
                    // SAFETY: both vectors are longer than the sum of the two, and apart.
                    unsafe { copy(source[from..].as_ptr(), target[to..].as_mut_ptr(), len) };
                    assert_eq!(target[to..to + len], source[from..from + len]);
                    assert!(target[..to].iter().chain(&target[to + len..]).all(|&it| it == 0xee));
                }
            }
        }
    }
}
