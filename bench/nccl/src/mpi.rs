//! MPI without anything around it, by the standard's binary interface.

use std::ffi::{c_int, c_void};
use std::ptr;

use consort_sys::dl::Library;

type Pointer = *const c_void;

/// Some of its functions, of the library that consort has begun to meet by.
pub(crate) struct Mpi {
    all_reduce: unsafe extern "C" fn(Pointer, *mut f32, c_int, Pointer, Pointer, Pointer) -> c_int,
    all_gather:
        unsafe extern "C" fn(Pointer, c_int, Pointer, *mut f32, c_int, Pointer, Pointer) -> c_int,
    broadcast: unsafe extern "C" fn(*mut f32, c_int, Pointer, c_int, Pointer) -> c_int,
    send_recv: unsafe extern "C" fn(
        Pointer,
        c_int,
        Pointer,
        c_int,
        c_int,
        *mut f32,
        c_int,
        Pointer,
        c_int,
        c_int,
        Pointer,
        Pointer,
    ) -> c_int,
}

impl Mpi {
    /// None where there is no MPI.
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("CONSORT_MPI_LIBRARY")?;
        let library = Library::open([path.into()]).expect("consort has loaded it");
        Some(Self {
            // SAFETY: the standard says so; so below.
            all_reduce: unsafe { library.function(c"MPI_Allreduce") }?,
            // SAFETY: as above.
            all_gather: unsafe { library.function(c"MPI_Allgather") }?,
            // SAFETY: as above.
            broadcast: unsafe { library.function(c"MPI_Bcast") }?,
            // SAFETY: as above.
            send_recv: unsafe { library.function(c"MPI_Sendrecv") }?,
        })
    }

    /// Adds up all ranks' numbers; in place if no others are given.
    pub(crate) fn all_reduce(&self, input: Option<&[f32]>, output: &mut [f32]) {
        let input = input.map_or(named(IN_PLACE), |input| input.as_ptr().cast());
        let (output, count) = (output.as_mut_ptr(), count(output));
        // SAFETY: there are so many numbers, which nobody else uses until it returns; so below.
        must(unsafe {
            (self.all_reduce)(input, output, count, named(FLOAT), named(SUM), named(WORLD))
        });
    }

    pub(crate) fn all_gather(&self, input: &[f32], output: &mut [f32]) {
        let (start, float, part) = (input.as_ptr().cast(), named(FLOAT), count(input));
        let output = output.as_mut_ptr();
        // SAFETY: as above.
        must(unsafe { (self.all_gather)(start, part, float, output, part, float, named(WORLD)) });
    }

    /// From rank 0.
    pub(crate) fn broadcast(&self, numbers: &mut [f32]) {
        let (start, count) = (numbers.as_mut_ptr(), count(numbers));
        // SAFETY: as above.
        must(unsafe { (self.broadcast)(start, count, named(FLOAT), 0, named(WORLD)) });
    }

    pub(crate) fn send_recv(&self, (input, to): (&[f32], u32), (output, from): (&mut [f32], u32)) {
        let (float, status_ignored) = (named(FLOAT), ptr::null());
        let (sent, received) = (count(input), count(output));
        // SAFETY: as above.
        must(unsafe {
            (self.send_recv)(
                input.as_ptr().cast(),
                sent,
                float,
                to as c_int,
                0,
                output.as_mut_ptr(),
                received,
                float,
                from as c_int,
                0,
                named(WORLD),
                status_ignored,
            )
        });
    }
}

fn named(number: usize) -> Pointer {
    ptr::without_provenance(number)
}

fn count(numbers: &[f32]) -> c_int {
    c_int::try_from(numbers.len()).expect("it is not that much")
}

#[track_caller]
fn must(code: c_int) {
    assert_eq!(code, 0, "MPI has failed");
}

const IN_PLACE: usize = 1;
const FLOAT: usize = 0x210;
const SUM: usize = 0x21;
const WORLD: usize = 0x101;
