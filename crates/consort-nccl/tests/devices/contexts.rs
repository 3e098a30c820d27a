//! In which context of CUDA's NCCL is called: that of the group's device, whatever else the program works with.

use std::fs;
use std::path::PathBuf;

use consort::device::Driver;
use consort::symm::SymmetricMemory;
use consort::{Call, Dtype, Group, ReduceOp};
use consort_testkit::{Context, await_threads, skip};

use crate::older::{can_be_made, find_another};
use crate::stage::{device, meet, upload};
use crate::sums::next;
use crate::symmetric::kept_apart;

#[test]
fn a_program_that_works_with_another_device_has_nccl_work_with_the_groups() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    kept_apart(2).start(|ctx| find_no_strays(ctx, drop)).expect_all();
}

#[test]
fn a_group_that_is_aborted_ends_on_its_own_device() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    kept_apart(2)
        .start(|ctx| {
            find_no_strays(ctx, |group| {
                group.barrier().unwrap();
                group.abort("somebody has pressed a key");
            });
        })
        .expect_all();
}

/// Uses devices and ends the group, while this rank has another device for itself.
fn find_no_strays(ctx: &Context, end: impl FnOnce(Group)) {
    let strays = look_for_strays(ctx);
    let group = meet(ctx);
    Driver::load().unwrap().device(5).unwrap().make_current().unwrap();
    use_devices(&group);
    end(group);
    await_threads("consort-symmetric", 0);
    await_threads("consort-device", 0);
    assert_eq!(fs::read_to_string(strays).unwrap_or_default(), "");
}

/// Has this rank find an NCCL that writes down what is called in the context of another device than this rank's.
fn look_for_strays(ctx: &Context) -> PathBuf {
    let strays = ctx.dir().join(format!("strays-{}", ctx.rank()));
    let library = ctx.dir().join(format!("libwatching-{}.so", ctx.rank()));
    let there = format!("-DSTRAYS=\"{}\"", strays.display());
    find_another(&library, &[&there, &format!("-DDEVICE={}", ctx.rank())]);
    strays
}

/// Calls on this thread and on the group's own, and symmetric memory.
fn use_devices(group: &Group) {
    next(group, &[1.0; 8]).unwrap();
    let (mine, other) = (device(group), 1 - group.rank().get());
    let (dtype, op, mut numbers) = (Dtype::F32, ReduceOp::Sum, upload(&mine, &[1_f32; 8]));
    let output = numbers.target();
    group.call(&Call::AllReduce { dtype, op, input: output.into(), output }).unwrap();
    let memory = group.symmetric_on(&mine, 5000).unwrap();
    memory.put_with_signal(other.into(), 50, (&[1, 2, 3][..]).into(), 0).unwrap();
    memory.wait_signal(other.into(), 0).unwrap();
    memory.barrier(0).unwrap();
}
