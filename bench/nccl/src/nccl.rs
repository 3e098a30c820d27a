//! `libconsort_nccl.so`, by the functions that a program in C calls.

use std::ffi::{c_int, c_void};

use consort::{Group, Result};
use consort_sys::dl::Library;

pub(crate) type Handle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; 128]);

macro_rules! functions {
    ($($field:ident $name:literal ($($type:ty),*);)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: &Library) -> Self {
                // SAFETY: the types are those of NCCL's header.
                Self { $($field: unsafe { library.function($name) }.expect("it is in the header"),)* }
            }
        }
    };
}

functions! {
    get_unique_id c"ncclGetUniqueId" (*mut Id);
    comm_init_rank c"ncclCommInitRank" (*mut Handle, c_int, Id, c_int);
    comm_destroy c"ncclCommDestroy" (Handle);
    stream_create c"consortStreamCreate" (*mut Handle);
    stream_synchronize c"consortStreamSynchronize" (Handle);
    stream_destroy c"consortStreamDestroy" (Handle);
    group_start c"ncclGroupStart" ();
    group_end c"ncclGroupEnd" ();
    all_reduce c"ncclAllReduce" (*const f32, *mut f32, usize, c_int, c_int, Handle, Handle);
    all_gather c"ncclAllGather" (*const f32, *mut f32, usize, c_int, Handle, Handle);
    broadcast c"ncclBroadcast" (*const f32, *mut f32, usize, c_int, c_int, Handle, Handle);
    send c"ncclSend" (*const f32, usize, c_int, c_int, Handle, Handle);
    recv c"ncclRecv" (*mut f32, usize, c_int, c_int, Handle, Handle);
}

/// A communicator of all ranks, and a stream. What is given to calls on the stream is left alone until that was
/// [synchronized](Self::synchronize).
pub(crate) struct Nccl {
    functions: Functions,
    comm: Handle,
    stream: Handle,
}

impl Nccl {
    /// Makes a communicator of a group's ranks.
    pub(crate) fn meet(group: &Group) -> Result<Self> {
        let path =
            std::env::var_os("BENCH_NCCL_LIBRARY").expect("bench/nccl/run names the library");
        let library = Library::open([path.into()]).expect("bench/nccl/run has built it");
        let functions = Functions::of(&library);
        let mut id = Id([0; 128]);
        if group.rank() == 0 {
            // SAFETY: there is room for it.
            must(unsafe { (functions.get_unique_id)(&mut id) });
        }
        group.broadcast(&mut id.0, 0)?;
        let (rank, world) = (group.rank().get() as c_int, group.world() as c_int);
        let (mut comm, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: there is room for the handle, here and below.
        must(unsafe { (functions.comm_init_rank)(&mut comm, world, id, rank) });
        // SAFETY: as above.
        must(unsafe { (functions.stream_create)(&mut stream) });
        Ok(Self { functions, comm, stream })
    }

    /// For calls that are done when they return.
    pub(crate) fn now(&self) -> Handle {
        std::ptr::null_mut()
    }

    /// For calls that are done later.
    pub(crate) fn stream(&self) -> Handle {
        self.stream
    }

    /// Waits for all calls on the stream.
    pub(crate) fn synchronize(&self) {
        // SAFETY: it is a stream.
        must(unsafe { (self.functions.stream_synchronize)(self.stream) });
    }

    /// Adds up all ranks' numbers; in place if no others are given.
    pub(crate) fn all_reduce(&self, input: Option<&[f32]>, output: &mut [f32], stream: Handle) {
        let (count, output) = (output.len(), output.as_mut_ptr());
        let input = input.map_or(output.cast_const(), <[f32]>::as_ptr);
        // SAFETY: there are so many numbers, which are left alone until the call is done; so below.
        must(unsafe {
            (self.functions.all_reduce)(input, output, count, FLOAT, SUM, self.comm, stream)
        });
    }

    pub(crate) fn all_gather(&self, input: &[f32], output: &mut [f32], stream: Handle) {
        let (count, input, output) = (input.len(), input.as_ptr(), output.as_mut_ptr());
        // SAFETY: as above.
        must(unsafe {
            (self.functions.all_gather)(input, output, count, FLOAT, self.comm, stream)
        });
    }

    /// In place, from rank 0.
    pub(crate) fn broadcast(&self, numbers: &mut [f32], stream: Handle) {
        let (count, start) = (numbers.len(), numbers.as_mut_ptr());
        // SAFETY: as above.
        must(unsafe {
            (self.functions.broadcast)(start, start, count, FLOAT, 0, self.comm, stream)
        });
    }

    /// Sends to one rank and receives from another, in one group.
    pub(crate) fn send_recv(
        &self,
        (input, to): (&[f32], u32),
        (output, from): (&mut [f32], u32),
        stream: Handle,
    ) {
        let f = &self.functions;
        // SAFETY: it takes nothing.
        must(unsafe { (f.group_start)() });
        // SAFETY: as above, until the group has ended.
        must(unsafe {
            (f.send)(input.as_ptr(), input.len(), FLOAT, to as c_int, self.comm, stream)
        });
        let (count, output) = (output.len(), output.as_mut_ptr());
        // SAFETY: as above.
        must(unsafe { (f.recv)(output, count, FLOAT, from as c_int, self.comm, stream) });
        // SAFETY: it takes nothing.
        must(unsafe { (f.group_end)() });
    }

    pub(crate) fn end(self) {
        // SAFETY: it is a stream, and used no more.
        must(unsafe { (self.functions.stream_destroy)(self.stream) });
        // SAFETY: it is a communicator, and used no more.
        must(unsafe { (self.functions.comm_destroy)(self.comm) });
    }
}

#[track_caller]
fn must(code: c_int) {
    assert_eq!(code, 0, "libconsort_nccl.so has failed");
}

const FLOAT: c_int = 7;
const SUM: c_int = 0;
