//! NCCL's functions as Rust programs would have them, for the tests.
#![allow(dead_code, reason = "each test uses some of it")]

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::thread;
use std::time::Duration;

use consort::Element;
use consort_nccl::api::collectives::*;
use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::api::library::*;
use consort_nccl::api::messages::*;
use consort_nccl::raw::{Buffer, Grown, Handle, In, Out};
use consort_nccl::{Config, Status, UniqueId};
use consort_testkit::{Context, await_threads, limit, used_addresses};
use rustix::process::Resource;

/// The default stream.
pub(crate) const NOW: Handle = Handle::NULL;

pub(crate) const SUM: c_int = 0;
pub(crate) const PROD: c_int = 1;
pub(crate) const MAX: c_int = 2;
pub(crate) const MIN: c_int = 3;
pub(crate) const AVG: c_int = 4;

/// What C calls the type.
pub(crate) fn code<T: Element>() -> c_int {
    use consort::Dtype::*;
    let all = [I8, U8, I32, U32, I64, U64, F16, F32, F64, Bf16, F8E4m3, F8E5m2];
    all.iter().position(|dtype| *dtype == T::DTYPE).expect("C has it") as c_int
}

/// Succeeds, or shows what is wrong.
#[track_caller]
pub(crate) fn ok(status: Status) {
    assert_eq!(status, Status::SUCCESS, "{}", last_error());
}

/// Fails so, with these words.
#[track_caller]
pub(crate) fn fails(status: Status, expected: Status, words: &str) {
    let text = last_error();
    assert_eq!(status, expected, "{text}");
    assert!(text.starts_with("[consort-nccl "), "{text}");
    assert!(text.contains(words), "{text}");
}

pub(crate) fn last_error() -> String {
    last_error_of(Handle::NULL)
}

pub(crate) fn last_error_of(comm: Handle) -> String {
    // SAFETY: it stays until this thread asks again.
    let text = unsafe { CStr::from_ptr(ncclGetLastError(comm)) };
    text.to_string_lossy().into_owned()
}

/// Where a result goes.
pub(crate) fn out<T>(place: &mut T) -> Out<T> {
    // SAFETY: calls that are given one in these tests write before they return.
    unsafe { Out::from_raw(place) }
}

/// Where results go.
pub(crate) fn outs<T>(places: &mut [T]) -> Out<T> {
    // SAFETY: calls that are given one in these tests write before they return.
    unsafe { Out::from_raw(places.as_mut_ptr()) }
}

/// Some things to read.
pub(crate) fn list<T: Copy>(things: &[T]) -> In<T> {
    // SAFETY: calls that are given one in these tests read before they return.
    unsafe { In::from_raw(things.as_ptr()) }
}

pub(crate) fn nothing<T: Copy>() -> In<T> {
    // SAFETY: null leads nowhere.
    unsafe { In::from_raw(std::ptr::null()) }
}

pub(crate) fn config(config: &mut Config) -> Grown<Config> {
    // SAFETY: calls that are given one in these tests read before they return, and names are literals.
    unsafe { Grown::from_raw(config) }
}

pub(crate) fn no_config() -> Grown<Config> {
    // SAFETY: null leads nowhere.
    unsafe { Grown::from_raw(std::ptr::null_mut()) }
}

/// Memory to be read.
pub(crate) fn read<T: Element>(numbers: &[T]) -> Buffer {
    // SAFETY: the tests keep their memory until the calls on it are done.
    unsafe { Buffer::from_raw(numbers.as_ptr().cast_mut().cast()) }
}

/// Memory to be written.
pub(crate) fn write<T: Element>(numbers: &mut [T]) -> Buffer {
    // SAFETY: the tests keep their memory until the calls on it are done.
    unsafe { Buffer::from_raw(numbers.as_mut_ptr().cast()) }
}

pub(crate) fn null() -> Buffer {
    at(std::ptr::null_mut())
}

pub(crate) fn at(address: *mut c_void) -> Buffer {
    // SAFETY: the tests keep their memory until the calls on it are done.
    unsafe { Buffer::from_raw(address) }
}

pub(crate) fn unique_id() -> UniqueId {
    let mut id = UniqueId { internal: [0; 128] };
    ok(ncclGetUniqueId(out(&mut id)));
    id
}

/// An id that all ranks of the job have: the given rank makes it.
pub(crate) fn share(ctx: &Context, maker: u32, name: &str) -> UniqueId {
    if ctx.rank() == maker {
        let id = unique_id();
        leave_id(&ctx.dir(), name, &id);
        return id;
    }
    await_id(&ctx.dir().join(name))
}

/// Leaves an id in a file, all at once.
pub(crate) fn leave_id(folder: &Path, name: &str, id: &UniqueId) {
    let new = folder.join(format!("{name}.new"));
    std::fs::write(&new, id.internal.map(|byte| byte as u8)).expect("there is room");
    std::fs::rename(new, folder.join(name)).expect("it was written");
}

pub(crate) fn await_id(path: &Path) -> UniqueId {
    loop {
        if let Ok(bytes) = std::fs::read(path) {
            let bytes: [u8; 128] = bytes.try_into().expect("it is whole");
            return UniqueId { internal: bytes.map(|byte| byte as _) };
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// A communicator of all ranks of the job.
pub(crate) fn meet(ctx: &Context) -> Handle {
    share_and_meet(ctx, "id")
}

/// Another communicator of all ranks of the job, by an id of this name.
pub(crate) fn share_and_meet(ctx: &Context, name: &str) -> Handle {
    let id = share(ctx, 0, name);
    let mut comm = Handle::NULL;
    ok(ncclCommInitRank(out(&mut comm), ctx.world() as c_int, id, ctx.rank() as c_int));
    comm
}

/// As many communicators, in this process.
pub(crate) fn all_here(count: usize) -> Vec<Handle> {
    let mut comms = vec![Handle::NULL; count];
    ok(ncclCommInitAll(outs(&mut comms), count as c_int, nothing()));
    comms
}

pub(crate) fn rank_of(comm: Handle) -> usize {
    let mut rank = -1;
    ok(ncclCommUserRank(comm, out(&mut rank)));
    rank as usize
}

pub(crate) fn world_of(comm: Handle) -> usize {
    let mut world = -1;
    ok(ncclCommCount(comm, out(&mut world)));
    world as usize
}

pub(crate) fn condition(comm: Handle) -> Status {
    let mut status = Status(-1);
    ok(ncclCommGetAsyncError(comm, out(&mut status)));
    status
}

/// Waits until it is no more in progress.
pub(crate) fn settled(comm: Handle) -> Status {
    loop {
        match condition(comm) {
            Status::IN_PROGRESS => thread::sleep(Duration::from_millis(1)),
            status => return status,
        }
    }
}

pub(crate) fn stream() -> Handle {
    let mut stream = Handle::NULL;
    ok(consortStreamCreate(out(&mut stream)));
    stream
}

pub(crate) fn all_reduce<T: Element>(
    numbers: &[T],
    result: &mut [T],
    op: c_int,
    comm: Handle,
    stream: Handle,
) -> Status {
    ncclAllReduce(read(numbers), write(result), numbers.len(), code::<T>(), op, comm, stream)
}

pub(crate) fn send<T: Element>(numbers: &[T], peer: usize, comm: Handle, stream: Handle) -> Status {
    ncclSend(read(numbers), numbers.len(), code::<T>(), peer as c_int, comm, stream)
}

pub(crate) fn recv<T: Element>(
    numbers: &mut [T],
    peer: usize,
    comm: Handle,
    stream: Handle,
) -> Status {
    ncclRecv(write(numbers), numbers.len(), code::<T>(), peer as c_int, comm, stream)
}

/// Does something while the system gives no more threads.
pub(crate) fn without_threads<T>(body: impl FnOnce() -> T) -> T {
    // What the threads leave behind that have brought a communicator into being would do for another.
    ["consort-meeting", "consort-standby"].into_iter().for_each(|name| await_threads(name, 0));
    limit(Resource::As, Some(used_addresses() + (1 << 20)));
    // So would the stacks of threads that ended before.
    let parked: Vec<_> =
        std::iter::from_fn(|| thread::Builder::new().spawn(thread::park).ok()).collect();
    let result = body();
    limit(Resource::As, None);
    parked.iter().for_each(|parked| parked.thread().unpark());
    result
}

/// The sum of a one of each rank, which tells that all are there.
#[track_caller]
pub(crate) fn counts_all(comm: Handle) {
    let mut one = [1_i32];
    let buffer = write(&mut one);
    ok(ncclAllReduce(buffer, buffer, 1, code::<i32>(), SUM, comm, NOW));
    assert_eq!(one[0] as usize, world_of(comm));
}
