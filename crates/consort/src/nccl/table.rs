//! NCCL's functions, as far as the loaded library has them, and the calls of them.
//!
//! This is the one place that touches the library. A [`Handle`] is a communicator that is alive: it is made by the
//! calls that make communicators, and ends with [`Handle::destroy`] or [`Handle::abort`]. Above, `gate.rs` sees to
//! what NCCL asks of its callers: that one thread at a time issues calls of a communicator, and that none ends
//! while it is in an open group.
#![allow(unsafe_code, reason = "a foreign library is called here")]

mod block;
mod handle;
mod lease;
mod spot;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use consort_sys::dl;

use super::code::Code;
use super::config::Image;
use super::version::Version;
pub(super) use block::Block;
pub(super) use handle::{Handle, Made, Move, Slot};
pub(super) use lease::{Foreign, Lease, Leased, Place};
use spot::Spot;

/// A function that the loaded library lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absent {
    pub(super) function: &'static str,
    pub(super) needed: Version,
}

/// What a function answered, if it is there.
pub(super) type Answer<T = Code> = Result<T, Absent>;

/// Declares the table: for each function its field, its name in the library, the first version that has it, and
/// its arguments.
macro_rules! table {
    ($($field:ident $symbol:literal ($major:literal $minor:literal $patch:literal)
        ($($name:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions of a library.
        #[derive(Debug)]
        pub(super) struct Table {
            $($field: Option<unsafe extern "C" fn($($type),*) -> $result>,)*
        }

        impl Table {
            /// Looks for each function.
            pub(super) fn of(library: &dl::Library) -> Self {
                Self {
                    // SAFETY: the types are those of NCCL's header; no version has changed one.
                    $($field: unsafe { library.function($symbol) },)*
                }
            }

            /// Whether the library has a function of this name.
            pub(super) fn has(&self, function: &str) -> bool {
                match function {
                    $(name if name == name_of($symbol) => self.$field.is_some(),)*
                    _ => false,
                }
            }

            $(
                /// Calls the function, if it is there.
                ///
                /// # Safety
                /// As NCCL says of its arguments.
                #[allow(clippy::too_many_arguments, reason = "they are NCCL's")]
                unsafe fn $field(&self, $($name: $type),*) -> Answer<$result> {
                    let absent = Absent {
                        function: name_of($symbol),
                        needed: Version::new($major, $minor, $patch),
                    };
                    let function = self.$field.ok_or(absent)?;
                    // SAFETY: the caller promises it.
                    Ok(unsafe { function($($name),*) })
                }
            )*
        }

        /// Every function that this crate may call, and since when there is one.
        pub(super) const FUNCTIONS: &[(&str, Version)] =
            &[$((name_of($symbol), Version::new($major, $minor, $patch)),)*];
    };
}

table! {
    get_version c"ncclGetVersion" (2 3 0) (version: *mut c_int) -> c_int;
    get_unique_id c"ncclGetUniqueId" (2 3 0) (id: *mut RawId) -> c_int;
    get_error_string c"ncclGetErrorString" (2 3 0) (code: c_int) -> *const c_char;
    get_last_error c"ncclGetLastError" (2 13 0) (comm: RawComm) -> *const c_char;
    comm_init_rank c"ncclCommInitRank" (2 3 0)
        (comm: *mut RawComm, world: c_int, id: RawId, rank: c_int) -> c_int;
    comm_init_rank_config c"ncclCommInitRankConfig" (2 14 0)
        (comm: *mut RawComm, world: c_int, id: RawId, rank: c_int, config: *mut c_void) -> c_int;
    comm_init_rank_scalable c"ncclCommInitRankScalable" (2 23 0)
        (comm: *mut RawComm, world: c_int, rank: c_int, count: c_int, ids: *const RawId, config: *mut c_void) -> c_int;
    comm_init_all c"ncclCommInitAll" (2 3 0)
        (comms: *mut RawComm, count: c_int, devices: *const c_int) -> c_int;
    comm_finalize c"ncclCommFinalize" (2 14 0) (comm: RawComm) -> c_int;
    comm_destroy c"ncclCommDestroy" (2 3 0) (comm: RawComm) -> c_int;
    comm_abort c"ncclCommAbort" (2 4 0) (comm: RawComm) -> c_int;
    comm_revoke c"ncclCommRevoke" (2 28 7) (comm: RawComm, flags: c_int) -> c_int;
    comm_split c"ncclCommSplit" (2 18 0)
        (comm: RawComm, color: c_int, key: c_int, new: *mut RawComm, config: *mut c_void) -> c_int;
    comm_shrink c"ncclCommShrink" (2 27 0)
        (comm: RawComm, excluded: *const c_int, count: c_int, new: *mut RawComm, config: *mut c_void, flags: c_int)
        -> c_int;
    comm_get_unique_id c"ncclCommGetUniqueId" (2 29 2) (comm: RawComm, id: *mut RawId) -> c_int;
    comm_grow c"ncclCommGrow" (2 29 2)
        (comm: RawComm, world: c_int, id: *const RawId, rank: c_int, new: *mut RawComm, config: *mut c_void) -> c_int;
    comm_suspend c"ncclCommSuspend" (2 29 7) (comm: RawComm, flags: c_int) -> c_int;
    comm_resume c"ncclCommResume" (2 29 7) (comm: RawComm) -> c_int;
    comm_mem_stats c"ncclCommMemStats" (2 29 7) (comm: RawComm, which: c_int, value: *mut u64) -> c_int;
    comm_get_async_error c"ncclCommGetAsyncError" (2 4 0) (comm: RawComm, code: *mut c_int) -> c_int;
    comm_count c"ncclCommCount" (2 3 0) (comm: RawComm, count: *mut c_int) -> c_int;
    comm_cu_device c"ncclCommCuDevice" (2 3 0) (comm: RawComm, device: *mut c_int) -> c_int;
    comm_user_rank c"ncclCommUserRank" (2 3 0) (comm: RawComm, rank: *mut c_int) -> c_int;
    mem_alloc c"ncclMemAlloc" (2 19 0) (start: *mut *mut c_void, size: usize) -> c_int;
    mem_free c"ncclMemFree" (2 19 0) (start: *mut c_void) -> c_int;
    comm_register c"ncclCommRegister" (2 19 0)
        (comm: RawComm, start: *mut c_void, size: usize, handle: *mut *mut c_void) -> c_int;
    comm_deregister c"ncclCommDeregister" (2 19 0) (comm: RawComm, handle: *mut c_void) -> c_int;
    comm_window_register c"ncclCommWindowRegister" (2 27 0)
        (comm: RawComm, start: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int) -> c_int;
    comm_window_deregister c"ncclCommWindowDeregister" (2 27 0) (comm: RawComm, window: *mut c_void) -> c_int;
    win_get_user_ptr c"ncclWinGetUserPtr" (2 29 2)
        (comm: RawComm, window: *mut c_void, start: *mut *mut c_void) -> c_int;
    get_peer_device_pointer c"ncclGetPeerDevicePointer" (2 29 2)
        (window: *mut c_void, offset: usize, peer: c_int, start: *mut *mut c_void) -> c_int;
    get_lsa_device_pointer c"ncclGetLsaDevicePointer" (2 29 2)
        (window: *mut c_void, offset: usize, rank: c_int, start: *mut *mut c_void) -> c_int;
    get_lsa_multimem_device_pointer c"ncclGetLsaMultimemDevicePointer" (2 29 2)
        (window: *mut c_void, offset: usize, start: *mut *mut c_void) -> c_int;
    red_op_create_pre_mul_sum c"ncclRedOpCreatePreMulSum" (2 11 0)
        (op: *mut c_int, scalar: *mut c_void, dtype: c_int, residence: c_int, comm: RawComm) -> c_int;
    red_op_destroy c"ncclRedOpDestroy" (2 11 0) (op: c_int, comm: RawComm) -> c_int;
    all_reduce c"ncclAllReduce" (2 3 0)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, op: c_int, comm: RawComm, stream: RawStream)
        -> c_int;
    broadcast c"ncclBroadcast" (2 3 0)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, root: c_int, comm: RawComm, stream: RawStream)
        -> c_int;
    reduce c"ncclReduce" (2 3 0)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, op: c_int, root: c_int, comm: RawComm,
         stream: RawStream) -> c_int;
    all_gather c"ncclAllGather" (2 3 0)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, comm: RawComm, stream: RawStream) -> c_int;
    reduce_scatter c"ncclReduceScatter" (2 3 0)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, op: c_int, comm: RawComm, stream: RawStream)
        -> c_int;
    all_to_all c"ncclAlltoAll" (2 28 3)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, comm: RawComm, stream: RawStream) -> c_int;
    gather c"ncclGather" (2 28 3)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, root: c_int, comm: RawComm, stream: RawStream)
        -> c_int;
    scatter c"ncclScatter" (2 28 3)
        (send: *const u8, recv: *mut u8, count: usize, dtype: c_int, root: c_int, comm: RawComm, stream: RawStream)
        -> c_int;
    send c"ncclSend" (2 7 0)
        (send: *const u8, count: usize, dtype: c_int, peer: c_int, comm: RawComm, stream: RawStream) -> c_int;
    recv c"ncclRecv" (2 7 0)
        (recv: *mut u8, count: usize, dtype: c_int, peer: c_int, comm: RawComm, stream: RawStream) -> c_int;
    put_signal c"ncclPutSignal" (2 29 2)
        (local: *const u8, count: usize, dtype: c_int, peer: c_int, window: *mut c_void, offset: usize,
         signal: c_int, context: c_int, flags: u32, comm: RawComm, stream: RawStream) -> c_int;
    signal c"ncclSignal" (2 29 2)
        (peer: c_int, signal: c_int, context: c_int, flags: u32, comm: RawComm, stream: RawStream) -> c_int;
    wait_signal c"ncclWaitSignal" (2 29 2)
        (count: c_int, awaited: *const Awaited, comm: RawComm, stream: RawStream) -> c_int;
    group_start c"ncclGroupStart" (2 3 0) () -> c_int;
    group_end c"ncclGroupEnd" (2 3 0) () -> c_int;
    group_simulate_end c"ncclGroupSimulateEnd" (2 22 0) (info: *mut SimInfo) -> c_int;
    param_get_parameter c"ncclParamGetParameter" (2 30 4)
        (key: *const c_char, value: *mut *const c_char, len: *mut c_int) -> c_int;
    param_get_all_parameter_keys c"ncclParamGetAllParameterKeys" (2 30 4)
        (keys: *mut *const *const c_char, count: *mut c_int) -> c_int;
    consort_identity c"consortNcclIdentity" (2 30 0) () -> *const c_char;
}

type RawComm = *mut c_void;
type RawStream = *mut c_void;

/// What ranks show each other to become a communicator.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawId(pub(super) [u8; 128]);

/// How many signals to wait for, and whose.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    pub(super) count: c_int,
    pub(super) peer: c_int,
    pub(super) signal: c_int,
    pub(super) context: c_int,
}

/// What a group would take.
#[repr(C)]
#[derive(Debug)]
struct SimInfo {
    size: usize,
    magic: u32,
    version: u32,
    estimated_time: f32,
}

impl Table {
    /// The library's version code.
    pub(super) fn version(&self) -> Answer<(Code, i32)> {
        let mut version = 0;
        // SAFETY: the place for the answer is there.
        let code = unsafe { self.get_version(&mut version) }?;
        Ok((Code(code), version))
    }

    /// Which look-alike this is, if it is one.
    pub(super) fn identity(&self) -> Option<String> {
        // SAFETY: it takes nothing.
        let text = unsafe { self.consort_identity() }.ok()?;
        // SAFETY: the look-alike answers with a text that stays.
        unsafe { text_at(text) }
    }

    /// What a code means.
    pub(super) fn error_string(&self, code: Code) -> Option<String> {
        // SAFETY: any number may be asked about.
        let text = unsafe { self.get_error_string(code.0) }.ok()?;
        // SAFETY: NCCL answers with a text that stays.
        unsafe { text_at(text) }
    }

    /// What NCCL last complained about.
    pub(super) fn last_error(&self, comm: Option<&Handle>) -> Option<String> {
        let comm = comm.map_or(ptr::null_mut(), |handle| handle.as_ptr());
        // SAFETY: the communicator is alive, or there is none.
        let text = unsafe { self.get_last_error(comm) }.ok()?;
        // SAFETY: NCCL answers with a text that stays until the next complaint, which comes of a call.
        unsafe { text_at(text) }
    }

    /// Makes an id, at which this process will listen.
    pub(super) fn unique_id(&self) -> Answer<(Code, RawId)> {
        let mut id = RawId([0; 128]);
        // SAFETY: the place for the answer is there.
        let code = unsafe { self.get_unique_id(&mut id) }?;
        Ok((Code(code), id))
    }

    /// Makes a communicator; without a configuration, waits for the other ranks.
    pub(super) fn init_rank(
        &'static self,
        world: c_int,
        id: &RawId,
        rank: c_int,
        config: Option<&mut Image>,
    ) -> Answer<Made> {
        self.make(|new| match config {
            // SAFETY: the configuration is one for this version, and its texts live as long as it does.
            Some(config) => unsafe {
                self.comm_init_rank_config(new, world, *id, rank, config.as_mut_ptr())
            },
            // SAFETY: everything is a plain value.
            None => unsafe { self.comm_init_rank(new, world, *id, rank) },
        })
    }

    /// As [`init_rank`](Self::init_rank), with several ids.
    pub(super) fn init_rank_scalable(
        &'static self,
        world: c_int,
        rank: c_int,
        ids: &[RawId],
        config: &mut Image,
    ) -> Answer<Made> {
        let (first, count, config) = (ids.as_ptr(), ids.len() as c_int, config.as_mut_ptr());
        // SAFETY: there are as many ids as it says, and the configuration is one for this version.
        self.make(|new| unsafe {
            self.comm_init_rank_scalable(new, world, rank, count, first, config)
        })
    }

    /// Makes a communicator for each of some devices.
    pub(super) fn init_all(
        &'static self,
        devices: &[c_int],
    ) -> Answer<(Code, Vec<Option<Handle>>)> {
        let mut comms = vec![ptr::null_mut(); devices.len()];
        let (first, count) = (comms.as_mut_ptr(), devices.len() as c_int);
        // SAFETY: there is a place for each, and a device for each.
        let code = unsafe { self.comm_init_all(first, count, devices.as_ptr()) }?;
        Ok((Code(code), comms.into_iter().map(|comm| Handle::of(comm, self)).collect()))
    }

    /// Joins a communicator that grows.
    pub(super) fn join(
        &'static self,
        world: c_int,
        id: &RawId,
        rank: c_int,
        config: &mut Image,
    ) -> Answer<Made> {
        let config = config.as_mut_ptr();
        // SAFETY: there is no communicator yet, and the configuration is one for this version.
        self.make(|new| unsafe { self.comm_grow(ptr::null_mut(), world, id, rank, new, config) })
    }

    /// Makes one group of the calls that follow on this thread.
    pub(super) fn start_group(&self) -> Answer {
        // SAFETY: it takes nothing.
        unsafe { self.group_start() }.map(Code)
    }

    /// Carries out the group, if it is the outermost.
    pub(super) fn end_group(&self) -> Answer {
        // SAFETY: it takes nothing; every communicator in the group is kept alive by `group.rs`.
        unsafe { self.group_end() }.map(Code)
    }

    /// Says how many microseconds the group would have taken.
    pub(super) fn simulate_group_end(&self, version: Version) -> Answer<(Code, f32)> {
        let mut info = SimInfo {
            size: size_of::<SimInfo>(),
            magic: 0x7468_5283,
            version: version.code() as u32,
            estimated_time: -1.0,
        };
        // SAFETY: it is initialised as the header does; every communicator in the group is kept alive.
        let code = unsafe { self.group_simulate_end(&mut info) }?;
        Ok((Code(code), info.estimated_time))
    }

    /// The value of a parameter.
    pub(super) fn parameter(&self, key: &CStr) -> Answer<(Code, Option<String>)> {
        let (mut value, mut len) = (ptr::null(), 0);
        // SAFETY: the places for the answers are there, and the key is a text.
        let code = unsafe { self.param_get_parameter(key.as_ptr(), &mut value, &mut len) }?;
        if Code(code) != Code::SUCCESS {
            return Ok((Code(code), None));
        }
        // SAFETY: it is a text that stays until the next such call of this thread.
        Ok((Code(code), unsafe { text_at(value) }))
    }

    /// The names of all parameters.
    pub(super) fn parameters(&self) -> Answer<(Code, Vec<String>)> {
        let (mut keys, mut count) = (ptr::null(), 0);
        // SAFETY: the places for the answers are there.
        let code = unsafe { self.param_get_all_parameter_keys(&mut keys, &mut count) }?;
        if Code(code) != Code::SUCCESS || keys.is_null() {
            return Ok((Code(code), Vec::new()));
        }
        let names = (0..usize::try_from(count).unwrap_or(0)).filter_map(|at| {
            // SAFETY: the library says that there are so many.
            let key = unsafe { keys.add(at) };
            // SAFETY: as above; the list stays until the next such call of this thread.
            let key = unsafe { key.read() };
            // SAFETY: each is a text.
            unsafe { text_at(key) }
        });
        Ok((Code(code), names.collect()))
    }

    fn make(&'static self, call: impl FnOnce(*mut RawComm) -> Answer<c_int>) -> Answer<Made> {
        let spot = Spot::new();
        let code = Code(call(spot.as_ptr())?);
        Ok((code, Slot::new(spot.after(code), self)))
    }
}

/// A copy of a text.
///
/// # Safety
/// It is null, or a text that ends with a zero and is there now.
unsafe fn text_at(text: *const c_char) -> Option<String> {
    let text = NonNull::new(text.cast_mut())?;
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}

/// A name of the table, as people want it.
const fn name_of(symbol: &'static CStr) -> &'static str {
    match symbol.to_str() {
        Ok(name) => name,
        Err(_) => panic!("the names in the table are plain"),
    }
}

#[cfg(test)]
mod tests;
