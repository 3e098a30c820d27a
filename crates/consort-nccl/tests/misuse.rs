//! What makes no sense, and what is said of it.

mod support;

use std::ffi::{CStr, c_int, c_void};

use consort_nccl::api::collectives::*;
use consort_nccl::api::communicators::*;
use consort_nccl::api::device::*;
use consort_nccl::api::driver::{cuMemAlloc_v2, cuMemFree_v2};
use consort_nccl::api::extensions::*;
use consort_nccl::api::library::*;
use consort_nccl::api::memory::*;
use consort_nccl::api::messages::*;
use consort_nccl::api::parameters::*;
use consort_nccl::api::reductions::*;
use consort_nccl::api::windows::*;
use consort_nccl::raw::{Bytes, Handle, Text};
use consort_nccl::{Config, Status, UniqueId};

use support::*;

const BAD: Status = Status::INVALID_ARGUMENT;

fn alone() -> Handle {
    all_here(1)[0]
}

#[test]
fn the_library_says_who_it_is() {
    let mut version = 0;
    ok(ncclGetVersion(out(&mut version)));
    assert_eq!(version, 23007);
    // SAFETY: it is there for ever.
    let identity = unsafe { CStr::from_ptr(consortNcclIdentity()) }.to_str().unwrap();
    assert!(identity.starts_with("consort-nccl 0."), "{identity}");
    let texts: Vec<&str> = (-1..=10)
        // SAFETY: it is there for ever.
        .map(|code| unsafe { CStr::from_ptr(ncclGetErrorString(Status(code))) }.to_str().unwrap())
        .collect();
    assert_eq!((texts[1], texts[9], texts[10]), ("no error", "timeout", "unknown result code"));
    assert_eq!(texts[0], texts[11]);
    // SAFETY: null leads nowhere.
    let nowhere = unsafe { consort_nccl::raw::Out::from_raw(std::ptr::null_mut()) };
    fails(ncclGetVersion(nowhere), BAD, "ncclGetVersion: version is NULL");
}

#[test]
fn handles_that_lead_nowhere_are_refused() {
    let (numbers, foreign) = ([1.0_f32], Handle::new(0xdead_0000));
    let call = |comm, stream| all_reduce(&numbers, &mut [0.0], SUM, comm, stream);
    fails(call(Handle::NULL, NOW), BAD, "comm is NULL");
    fails(call(foreign, NOW), BAD, "comm is 0xdead0000, which is none");
    let comm = alone();
    fails(call(comm, foreign), BAD, "stream is 0xdead0000");
    fails(call(comm, comm), BAD, "stream is");
    ok(ncclCommDestroy(comm));
    fails(call(comm, NOW), BAD, "destroyed before");
    fails(ncclCommDestroy(comm), BAD, "destroyed before");
    ok(ncclCommDestroy(Handle::NULL));
    ok(ncclCommAbort(Handle::NULL));
    fails(consortStreamSynchronize(foreign), BAD, "stream is 0xdead0000");
    fails(consortStreamDestroy(foreign), BAD, "stream is 0xdead0000");
    ok(consortStreamSynchronize(NOW));
}

/// Nobody numbers the parts of so much.
#[test]
fn counts_that_no_memory_has_end_no_communicator() {
    let comms = all_here(2);
    let (comm, dtype) = (comms[0], code::<u8>());
    let mut numbers = [0_u8; 8];
    let (from, to) = (read(&[0_u8; 8]), write(&mut numbers));
    let refused = |status| fails(status, BAD, "more than memory");
    for count in [1 << 50, 1 << 61] {
        refused(ncclAllReduce(from, to, count, dtype, SUM, comm, NOW));
        refused(ncclAllGather(from, to, count, dtype, comm, NOW));
        refused(ncclReduceScatter(from, to, count, dtype, SUM, comm, NOW));
        refused(ncclGather(from, to, count, dtype, 0, comm, NOW));
        refused(ncclGather(from, to, count, dtype, 1, comm, NOW));
        refused(ncclSend(from, count, dtype, 1, comm, NOW));
        refused(ncclRecv(to, count, dtype, 1, comm, NOW));
    }
    std::thread::scope(|scope| {
        comms.iter().for_each(|&comm| drop(scope.spawn(move || counts_all(comm))));
    });
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn arguments_are_told_by_their_names() {
    let comm = alone();
    let mut numbers = [1.0_f32; 8];
    let (input, output) = (read(&[2.0_f32; 8]), write(&mut numbers));
    let dtype = code::<f32>();
    let reduce =
        |input, output, count, dtype, op| ncclAllReduce(input, output, count, dtype, op, comm, NOW);
    fails(reduce(null(), output, 8, dtype, SUM), BAD, "sendbuff is NULL");
    fails(reduce(input, null(), 8, dtype, SUM), BAD, "recvbuff is NULL");
    fails(reduce(input, output, 8, 12, SUM), BAD, "datatype is 12");
    fails(reduce(input, output, 8, -1, SUM), BAD, "datatype is -1");
    fails(reduce(input, output, 8, dtype, 5), BAD, "op is 5");
    fails(reduce(input, output, 8, dtype, -1), BAD, "op is -1");
    fails(reduce(input, output, usize::MAX, dtype, SUM), BAD, "count is");
    fails(reduce(input, output, usize::MAX / 8, dtype, SUM), BAD, "more than memory");
    fails(reduce(input, output, 1 << 50, dtype, SUM), BAD, "more than memory");
    let shifted = write(&mut numbers[1..]);
    fails(reduce(output, shifted, 7, dtype, SUM), BAD, "overlaps");
    let broadcast = |from, to| ncclBroadcast(from, to, 7, dtype, 0, comm, NOW);
    fails(broadcast(output, shifted), BAD, "overlaps");
    fails(broadcast(shifted, output), BAD, "overlaps");
    for root in [-1, 1] {
        let status = ncclBroadcast(input, output, 8, dtype, root, comm, NOW);
        fails(status, BAD, &format!("root is {root}"));
        fails(ncclSend(input, 8, dtype, root, comm, NOW), BAD, &format!("peer is {root}"));
        fails(ncclRecv(output, 8, dtype, root, comm, NOW), BAD, &format!("peer is {root}"));
    }
    assert_eq!(numbers, [1.0; 8]);
    assert_eq!(
        condition(comm),
        Status::SUCCESS,
        "a mistake of the caller is none of the communicator"
    );
    ok(ncclCommDestroy(comm));
}

#[test]
fn ids_ranks_and_configurations_are_looked_at() {
    let id = unique_id();
    let mut comm = Handle::NULL;
    let init = |comm: &mut Handle, world, id, rank| ncclCommInitRank(out(comm), world, id, rank);
    fails(init(&mut comm, 0, id, 0), BAD, "nranks is 0");
    let too_many = (1 << 17) + 1;
    fails(init(&mut comm, too_many, id, 0), BAD, "a communicator has 131072 ranks at most");
    fails(init(&mut comm, c_int::MAX, id, 0), BAD, "a communicator has 131072 ranks at most");
    fails(init(&mut comm, 2, id, 2), BAD, "rank is 2");
    fails(init(&mut comm, 2, id, -1), BAD, "rank is -1");
    fails(init(&mut comm, 1, UniqueId { internal: [1; 128] }, 0), BAD, "commId is no id");
    let mut damaged = id;
    damaged.internal[40] ^= 1;
    fails(init(&mut comm, 2, damaged, 0), BAD, "commId has changed on the way");
    for (mut asked, words) in [
        (Config { magic: 0, ..Config::INITIAL }, "NCCL_CONFIG_INITIALIZER"),
        (Config { size: 0, ..Config::INITIAL }, "0 bytes"),
        (Config { blocking: -5, ..Config::INITIAL }, "config.blocking is -5"),
    ] {
        let status = ncclCommInitRankConfig(out(&mut comm), 1, id, 0, config(&mut asked));
        fails(status, BAD, words);
    }
    // A later version says more.
    let mut asked = Config { size: size_of::<Config>() + 64, ..Config::INITIAL };
    ok(ncclCommInitRankConfig(out(&mut comm), 1, id, 0, config(&mut asked)));
    // One that ends in the middle of a pointer does not say where it leads.
    let end = std::mem::offset_of!(Config, commName) + 4;
    let name = std::ptr::without_provenance(0xdead_dead_dead);
    let mut asked = Config { size: end, commName: name, ..Config::INITIAL };
    let mut other = Handle::NULL;
    ok(ncclCommInitRankConfig(out(&mut other), 1, unique_id(), 0, config(&mut asked)));
    ok(ncclCommDestroy(other));
    let too_many = |ndev| {
        let mut none = Handle::NULL;
        ncclCommInitAll(out(&mut none), ndev, nothing())
    };
    for ndev in [0, -1, 1025, c_int::MAX] {
        fails(too_many(ndev), BAD, &format!("ndev is {ndev}"));
    }
    let scalable = |count| {
        let mut comm = Handle::NULL;
        ncclCommInitRankScalable(out(&mut comm), 1, 0, count, list(&[id]), no_config())
    };
    fails(scalable(0), BAD, "nId is 0");
    fails(scalable(2), BAD, "nId is 2");
    let mut part = Handle::NULL;
    fails(ncclCommSplit(comm, -2, 0, out(&mut part), no_config()), BAD, "color is -2");
    let shrink = |ranks: &[c_int], flags| {
        let mut rest = Handle::NULL;
        let count = ranks.len() as c_int;
        ncclCommShrink(comm, list(ranks), count, out(&mut rest), no_config(), flags)
    };
    fails(shrink(&[], 2), BAD, "shrinkFlags is 2");
    fails(shrink(&[0], 0), BAD, "excludeRanksCount is 1");
    ok(ncclCommDestroy(comm));
    let comms = all_here(2);
    for (rank, words) in [(0, "this rank, 0"), (2, "excludeRanksList is 2")] {
        let status = ncclCommShrink(comms[0], list(&[rank]), 1, out(&mut part), no_config(), 0);
        fails(status, BAD, words);
    }
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_way_to_combine_numbers_is_its_communicators_and_types() {
    let (one, other) = (alone(), alone());
    let factor = [2.0_f32];
    let mut op = -1;
    let create = |op: &mut c_int, residence| {
        ncclRedOpCreatePreMulSum(out(op), read(&factor), code::<f32>(), residence, one)
    };
    fails(create(&mut op, 2), BAD, "residence is 2");
    ok(create(&mut op, 1));
    let mut doubled = [0.0_f32];
    ok(all_reduce(&[3.0_f32], &mut doubled, op, one, NOW));
    assert_eq!(doubled, [6.0]);
    fails(all_reduce(&[3.0_f64], &mut [0.0], op, one, NOW), BAD, "was made for f32");
    fails(all_reduce(&[3.0_f32], &mut [0.0], op, other, NOW), BAD, "op is");
    fails(ncclRedOpDestroy(op, other), BAD, "for this communicator");
    fails(ncclRedOpDestroy(SUM, one), BAD, "not the program's own");
    ok(ncclRedOpDestroy(op, one));
    fails(ncclRedOpDestroy(op, one), BAD, "destroyed before");
    fails(all_reduce(&[3.0_f32], &mut [0.0], op, one, NOW), BAD, "op is");
    ok(ncclCommDestroy(one));
    ok(ncclCommDestroy(other));
}

#[test]
fn memory_is_taken_back_once() {
    let mut memory: *mut c_void = std::ptr::null_mut();
    ok(ncclMemAlloc(out(&mut memory), 10_000));
    assert!(memory.addr().is_multiple_of(4096));
    ok(ncclMemFree(at(memory)));
    fails(ncclMemFree(at(memory)), BAD, "freed before");
    ok(ncclMemFree(null()));
    let comm = alone();
    let (mut handle, numbers) = (Handle::NULL, [0_u8; 100]);
    ok(ncclCommRegister(comm, read(&numbers), 100, out(&mut handle)));
    ok(ncclCommDeregister(comm, handle));
    fails(ncclCommDeregister(comm, handle), BAD, "deregistered before");
    fails(ncclCommRegister(comm, null(), 100, out(&mut handle)), BAD, "buff is NULL");
    ok(ncclCommDestroy(comm));
}

#[test]
fn a_registration_is_not_called_as_another_was() {
    let (comms, numbers) = ([alone(), alone()], [0_u8; 100]);
    let register = |comm| {
        let mut handle = Handle::NULL;
        ok(ncclCommRegister(comm, read(&numbers), 100, out(&mut handle)));
        handle
    };
    let first = register(comms[0]);
    ok(ncclCommDeregister(comms[0], first));
    let second = register(comms[0]);
    let others = register(comms[1]);
    for none in [first, others] {
        fails(ncclCommDeregister(comms[0], none), BAD, "for this communicator");
    }
    ok(ncclCommDeregister(comms[0], second));
    ok(ncclCommDeregister(comms[1], others));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn memory_that_is_not_there_is_not_promised() {
    let mut memory: *mut c_void = std::ptr::null_mut();
    let status = ncclMemAlloc(out(&mut memory), 1 << 46);
    fails(status, Status::SYSTEM_ERROR, "ncclMemAlloc: out of memory: no memory for 64.0 TiB");
    assert!(memory.is_null());
    ok(ncclMemAlloc(out(&mut memory), 1 << 20));
    ok(ncclMemFree(at(memory)));
    let mut address = 0_u64;
    assert_eq!(cuMemAlloc_v2(out(&mut address), 1 << 46), 2, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_eq!(cuMemAlloc_v2(out(&mut address), 1 << 20), 0);
    assert_eq!(cuMemFree_v2(at(std::ptr::with_exposed_provenance_mut(address as usize))), 0);
}

#[test]
fn what_a_cpu_has_not_is_said_to_be_so() {
    let comm = alone();
    let usage = Status::INVALID_USAGE;
    fails(ncclDevCommCreate(comm, null(), null()), usage, "kernels on a GPU");
    fails(ncclDevCommDestroy(comm, null()), usage, "kernels on a GPU");
    fails(ncclCommQueryProperties(comm, null()), usage, "properties");
    fails(ncclCommSuspend(comm, 1), usage, "device memory");
    fails(ncclCommResume(comm), usage, "device memory");
    let mut place: *mut c_void = std::ptr::null_mut();
    let window = Handle::NULL;
    fails(ncclGetPeerDevicePointer(window, 0, 0, out(&mut place)), BAD, "the window is NULL");
    fails(ncclGetLsaMultimemDevicePointer(window, 0, out(&mut place)), usage, "several GPUs");
    let mut bytes = 7;
    ok(ncclCommMemStats(comm, 3, out(&mut bytes)));
    assert_eq!(bytes, 0);
    fails(ncclCommMemStats(comm, 4, out(&mut bytes)), BAD, "stat is 4");
    assert_eq!(ncclTeamWorld(comm).nRanks, 1);
    assert_eq!(ncclTeamWorld(Handle::NULL).nRanks, 0);
    ok(ncclCommDestroy(comm));
}

#[test]
fn parameters_are_variables_of_the_environment() {
    // SAFETY: it ends with a zero, and is there for ever.
    let key = |key: &'static CStr| unsafe { Text::from_raw(key.as_ptr()) };
    let mut handle = Handle::new(9);
    fails(ncclParamBind(out(&mut handle), key(c"NCCL_NONSENSE")), BAD, "NCCL_NONSENSE");
    assert_eq!(handle, Handle::new(9));
    ok(ncclParamBind(out(&mut handle), key(c"CONSORT_VERIFY")));
    let mut number = 7_i32;
    fails(ncclParamGetI32(handle, out(&mut number)), BAD, "CONSORT_VERIFY is not set");
    fails(ncclParamGetI32(Handle::NULL, out(&mut number)), BAD, "ncclParamBind has not given");
    let (mut text, mut len) = (std::ptr::null(), -1);
    ok(ncclParamGetParameter(key(c"CONSORT_VERIFY"), out(&mut text), out(&mut len)));
    assert_eq!(len, 0);
    let mut table = std::ptr::null();
    ok(ncclParamGetAllParameterKeys(out(&mut table), out(&mut len)));
    assert!(!table.is_null() && len > 10);
    let mut room = [0_u8; 4];
    // SAFETY: there is as much room as the call is told.
    let bytes = unsafe { Bytes::from_raw(room.as_mut_ptr().cast()) };
    ok(ncclParamGet(handle, bytes, 4, out(&mut len)));
    assert_eq!(len, 0);
}
