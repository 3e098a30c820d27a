//! MPI without anything around it.

use std::ffi::{c_int, c_void};

use consort_sys::dl::Library;

/// Its all_reduce, by the standard's binary interface.
pub(crate) struct Plain {
    all_reduce: AllReduce,
}

type AllReduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    c_int,
    *const c_void,
    *const c_void,
    *const c_void,
) -> c_int;

impl Plain {
    /// In the library that consort has begun.
    pub(crate) fn find() -> Self {
        let path =
            std::env::var_os("CONSORT_MPI_LIBRARY").expect("bench/mpi/run names the library");
        let library = Library::open([path.into()]).expect("consort has loaded it");
        // SAFETY: the standard says so.
        let all_reduce = unsafe { library.function(c"MPI_Allreduce") };
        Self { all_reduce: all_reduce.expect("every MPI has it") }
    }

    /// Adds up the numbers of all ranks, in place.
    pub(crate) fn all_reduce(&self, data: &mut [f32]) {
        let count = c_int::try_from(data.len()).expect("it is not that much");
        let handle = |number: usize| std::ptr::without_provenance::<c_void>(number);
        let (float, sum, world) = (handle(MPI_FLOAT), handle(MPI_SUM), handle(MPI_COMM_WORLD));
        let data = data.as_mut_ptr().cast();
        // SAFETY: there are so many numbers, which nobody else uses until it returns.
        let code =
            unsafe { (self.all_reduce)(handle(MPI_IN_PLACE), data, count, float, sum, world) };
        assert_eq!(code, 0, "MPI has failed");
    }
}

const MPI_IN_PLACE: usize = 1;
const MPI_FLOAT: usize = 0x210;
const MPI_SUM: usize = 0x21;
const MPI_COMM_WORLD: usize = 0x101;
