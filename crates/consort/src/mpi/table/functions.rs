//! MPI's functions and constants, as its standard binary interface has them.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int, c_void};

use consort_sys::dl::Library;
use consort_sys::dtype::{Dtype, ReduceOp};

/// Something of MPI's: in C a pointer to it, which only MPI may follow, or a small number for what is there
/// from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Handle(pub(super) usize);

/// MPI's counts.
pub(super) type Count = i64;
/// MPI's distances within memory.
pub(super) type Distance = isize;

/// What MPI calls when something has gone wrong, before it returns an error. In C it has more arguments, of which
/// it need not know: on all platforms of this crate the first ones are passed as if there were no more.
pub(super) type OnError = extern "C" fn(*mut Handle, *mut c_int);

/// What MPI tells of a message.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

/// The functions, each by the name that it has in C.
macro_rules! functions {
    ($($field:ident = $name:literal($($argument:ty),*);)*) => {
        /// All functions that are used.
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        /// What each is called, and the types of its arguments.
        #[cfg(test)]
        const SIGNATURES: &[(&CStr, &[&str])] = &[$(($name, &[$(stringify!($argument)),*])),*];

        impl Functions {
            /// Finds them in a library.
            ///
            /// # Errors
            /// The name of one that it does not have.
            pub(super) fn of(library: &Library) -> Result<Self, &'static CStr> {
                Ok(Self {
                    // SAFETY: every library of this interface has the standard's function of this name, with
                    // these arguments.
                    $($field: unsafe { library.function($name) }.ok_or($name)?,)*
                })
            }
        }
    };
}

functions! {
    abi_version = c"MPI_Abi_get_version"(*mut c_int, *mut c_int);
    library_version = c"MPI_Get_library_version"(*mut c_char, *mut c_int);
    initialized = c"MPI_Initialized"(*mut c_int);
    init_thread = c"MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread = c"MPI_Query_thread"(*mut c_int);
    finalized = c"MPI_Finalized"(*mut c_int);
    finalize = c"MPI_Finalize"();
    error_string = c"MPI_Error_string"(c_int, *mut c_char, *mut c_int);
    comm_rank = c"MPI_Comm_rank"(Handle, *mut c_int);
    comm_size = c"MPI_Comm_size"(Handle, *mut c_int);
    comm_create_errhandler = c"MPI_Comm_create_errhandler"(OnError, *mut Handle);
    comm_set_errhandler = c"MPI_Comm_set_errhandler"(Handle, Handle);
    comm_group = c"MPI_Comm_group"(Handle, *mut Handle);
    group_incl = c"MPI_Group_incl"(Handle, c_int, *const c_int, *mut Handle);
    group_free = c"MPI_Group_free"(*mut Handle);
    comm_create_group = c"MPI_Comm_create_group"(Handle, Handle, c_int, *mut Handle);
    comm_free = c"MPI_Comm_free"(*mut Handle);
    test = c"MPI_Test"(*mut Handle, *mut c_int, *mut Status);
    barrier = c"MPI_Ibarrier"(Handle, *mut Handle);
    all_reduce = c"MPI_Iallreduce_c"(*const c_void, *mut c_void, Count, Handle, Handle, Handle, *mut Handle);
    reduce = c"MPI_Ireduce_c"(*const c_void, *mut c_void, Count, Handle, Handle, c_int, Handle, *mut Handle);
    reduce_scatter = c"MPI_Ireduce_scatter_c"(
        *const c_void, *mut c_void, *const Count, Handle, Handle, Handle, *mut Handle
    );
    broadcast = c"MPI_Ibcast_c"(*mut c_void, Count, Handle, c_int, Handle, *mut Handle);
    all_gather = c"MPI_Iallgather_c"(
        *const c_void, Count, Handle, *mut c_void, Count, Handle, Handle, *mut Handle
    );
    all_gather_v = c"MPI_Iallgatherv_c"(
        *const c_void, Count, Handle, *mut c_void, *const Count, *const Distance, Handle, Handle, *mut Handle
    );
    gather = c"MPI_Igather_c"(
        *const c_void, Count, Handle, *mut c_void, Count, Handle, c_int, Handle, *mut Handle
    );
    gather_v = c"MPI_Igatherv_c"(
        *const c_void, Count, Handle, *mut c_void, *const Count, *const Distance, Handle, c_int, Handle,
        *mut Handle
    );
    scatter = c"MPI_Iscatter_c"(
        *const c_void, Count, Handle, *mut c_void, Count, Handle, c_int, Handle, *mut Handle
    );
    scatter_v = c"MPI_Iscatterv_c"(
        *const c_void, *const Count, *const Distance, Handle, *mut c_void, Count, Handle, c_int, Handle,
        *mut Handle
    );
    all_to_all = c"MPI_Ialltoall_c"(
        *const c_void, Count, Handle, *mut c_void, Count, Handle, Handle, *mut Handle
    );
    all_to_all_v = c"MPI_Ialltoallv_c"(
        *const c_void, *const Count, *const Distance, Handle, *mut c_void, *const Count, *const Distance,
        Handle, Handle, *mut Handle
    );
    send = c"MPI_Isend_c"(*const c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    send_synchronously = c"MPI_Issend_c"(*const c_void, Count, Handle, c_int, c_int, Handle, *mut Handle);
    look = c"MPI_Iprobe"(c_int, c_int, Handle, *mut c_int, *mut Status);
    probe = c"MPI_Improbe"(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status);
    get_count = c"MPI_Get_count_c"(*const Status, Handle, *mut Count);
    receive = c"MPI_Imrecv_c"(*mut c_void, Count, Handle, *mut Handle, *mut Handle);
}

/// A way to combine numbers that MPI has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arithmetic {
    pub(super) datatype: Handle,
    pub(super) op: Handle,
    /// How many bytes a number has.
    pub(crate) size: usize,
}

impl Arithmetic {
    /// MPI's, if it gives the same bits in whatever order it combines: whole numbers do, sums of floating-point
    /// numbers do not, and which NaN or which zero a minimum is MPI leaves open.
    pub(crate) fn exactly(dtype: Dtype, op: ReduceOp) -> Option<Self> {
        let datatype = Handle(match dtype {
            Dtype::I8 => 0x240,
            Dtype::U8 => 0x241,
            Dtype::I16 => 0x248,
            Dtype::U16 => 0x249,
            Dtype::I32 => 0x250,
            Dtype::U32 => 0x251,
            Dtype::I64 => 0x258,
            Dtype::U64 => 0x259,
            _ => return None,
        });
        let op = Handle(match op {
            ReduceOp::Sum => 0x21,
            ReduceOp::Min => 0x22,
            ReduceOp::Max => 0x23,
            ReduceOp::Product => 0x24,
            ReduceOp::BitAnd => 0x28,
            ReduceOp::BitOr => 0x29,
            ReduceOp::BitXor => 0x2a,
            ReduceOp::Avg | ReduceOp::PremulSum(_) => return None,
        });
        Some(Self { datatype, op, size: dtype.size() })
    }
}

/// The interface's version that this table is of.
pub(super) const VERSION: c_int = 1;
pub(super) const SUCCESS: c_int = 0;
pub(super) const THREAD_MULTIPLE: c_int = 4096;
pub(super) const MAX_ERROR_STRING: usize = 512;
pub(super) const MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub(super) const WORLD: Handle = Handle(0x101);
pub(super) const ERRHANDLER_NULL: Handle = Handle(0x140);
pub(super) const REQUEST_NULL: Handle = Handle(0x180);
pub(super) const GROUP_NULL: Handle = Handle(0x108);
pub(super) const COMM_NULL: Handle = Handle(0x100);
pub(super) const MESSAGE_NULL: Handle = Handle(0x128);
pub(super) const ANY_SOURCE: c_int = -1;
/// In place of what is sent: that it is where it will be received.
pub(super) const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
pub(super) const BYTE: Handle = Handle(0x247);
/// The tag of messages: they are told apart by what they say.
pub(super) const TAG: c_int = 1;
/// The tag of words that may overtake messages.
pub(super) const FAREWELL: c_int = 2;
