//! How ranks come to have symmetric memory of devices, and give it back.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort::device::calls;
use consort::symm::{Options, SymmetricMemory};
use consort::{Dtype, Engine, Error, ReduceOp};
use consort_testkit::{Context, Job, skip};

use super::{on_devices, places, read_own, source};
use crate::older::{can_be_made, find_older};
use crate::stage::{device, invited, library, meet, upload, with_devices, without_nccl};

#[test]
fn ranks_that_ask_for_different_memory_hear_who_wants_what() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let bytes = if group.rank() == 1 { 65 } else { 64 };
            let error = group.symmetric_on(&device, bytes).unwrap_err();
            assert!(matches!(error, Error::Asymmetric { .. }), "{error}");
            assert!(
                error.to_string().contains("length: 64 on ranks 0, 2, 65 on rank 1"),
                "{error}"
            );
            let channels = if group.rank() == 2 { 3 } else { 4 };
            let options = Options::new().channels(channels);
            let error = group.symmetric_on_with(&device, 64, &options).unwrap_err();
            assert!(error.to_string().contains("channels: 3 on rank 2, 4 on ranks 0-1"), "{error}");
            // Nothing has happened to the group.
            on_devices(&group, 64).barrier(0).unwrap();
        })
        .expect_all();
}

#[test]
fn one_that_cannot_have_it_is_told_why_and_the_others_hear_that() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let (mine, is_odd) = (device(&group), group.rank() == 1);
            on_devices(&group, 1).barrier(0).unwrap();
            let other = consort::device::Driver::load().unwrap().device(7).unwrap();
            let error = group.symmetric_on(if is_odd { &other } else { &mine }, 64).unwrap_err();
            match is_odd {
                true => assert!(error.to_string().contains("on device 1, not on 7"), "{error}"),
                false => {
                    assert!(matches!(error, Error::Asymmetric { .. }), "{error}");
                    let told = "memory: impossible on rank 1, to be had on rank 0";
                    assert!(error.to_string().contains(told), "{error}");
                }
            }
            let error = group.symmetric_on(&mine, usize::MAX).unwrap_err();
            assert!(error.to_string().contains("more than can be addressed"), "{error}");
            let error = group.symmetric_on(&mine, 1 << 60).unwrap_err();
            assert!(error.to_string().contains("no memory for"), "{error}");
            let kept = Options::new().persistent("activations");
            let error = group.symmetric_on_with(&mine, 64, &kept).unwrap_err();
            assert!(error.to_string().contains("is not kept"), "{error}");
            on_devices(&group, 64).barrier(0).unwrap();
        })
        .expect_all();
}

#[test]
fn a_rank_whose_nccl_is_too_old_is_named_on_all() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(2)
        .start(|ctx| {
            if ctx.rank() == 1 {
                find_older(&ctx.dir().join("libolder.so"), &[]);
            }
            let group = meet(ctx);
            let error = group.symmetric_on(&device(&group), 64).unwrap_err();
            let told = match ctx.rank() {
                0 => "memory: NCCL is too old on rank 1, to be had on rank 0",
                _ => "symmetric memory of devices needs NCCL 2.29.2, and this is 2.27.3",
            };
            assert!(error.to_string().contains(told), "{error}");
            let there = upload(&device(&group), &[1_f32]);
            let there = calls::all_reduce(there, Dtype::F32, ReduceOp::Sum);
            group.call_async(there).unwrap().wait().unwrap();
        })
        .expect_all();
}

#[test]
fn ranks_without_nccl_have_none() {
    without_nccl(2)
        .start(|ctx| {
            let group = meet(ctx);
            let device = consort::device::Driver::open(&library()).unwrap().device(0).unwrap();
            let error = group.symmetric_on(&device, 64).unwrap_err();
            assert!(matches!(error, Error::PeerUnable { rank: 0, .. }), "{error}");
            group.barrier().unwrap();
        })
        .expect_all();
}

#[test]
fn ranks_with_the_hosts_engine_have_none() {
    with_devices(2)
        .start(|ctx| {
            let group = invited(ctx).engine(Engine::Host).init().unwrap();
            let error = group.symmetric_on(&device(&group), 64).unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            group.barrier().unwrap();
        })
        .expect_all();
}

#[test]
fn memory_outlives_the_handles_of_its_group() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let other = 1 - group.rank().get();
            let memory = on_devices(&group, 1000);
            let call = calls::all_reduce(memory.clone(), Dtype::U8, ReduceOp::Sum);
            let work = group.call_async(call).unwrap();
            drop(group);
            memory.put_with_signal(other.into(), 990, source(&[7; 10]), 0).unwrap();
            memory.wait_signal(other.into(), 0).unwrap();
            drop(memory);
            let memory = work.wait().unwrap().output;
            memory.barrier(0).unwrap();
        })
        .expect_all();
}

near_and_apart! { a_rank_that_drops_it_first_keeps_nobody_from_using_it(3, Job::expect_all); }

fn a_rank_that_drops_it_first_keeps_nobody_from_using_it(ctx: &Context) {
    let group = meet(ctx);
    let (me, _, right, left) = places(&group);
    let memory = on_devices(&group, 1000);
    memory.put_with_signal(right.into(), 0, source(&[me as u8; 1000]), 0).unwrap();
    if me == 0 {
        let began = Instant::now();
        drop(memory);
        assert!(began.elapsed() < Duration::from_secs(1), "it waits for nobody");
        group.barrier().unwrap();
        return;
    }
    group.barrier().unwrap();
    memory.wait_signal(left.into(), 0).unwrap();
    assert_eq!(read_own(&memory, 0, 1000), [left as u8; 1000]);
    // There is somebody who takes it, though nobody will look.
    memory.put_with_signal(0.into(), 0, source(&[1; 1000]), 0).unwrap();
}

#[test]
fn memory_that_is_dropped_is_given_back() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let other = 1 - group.rank().get();
            let turn = |round: u8| {
                let memory = on_devices(&group, 3 << 20);
                assert_eq!(read_own(&memory, 0, 100), [0; 100]);
                memory.barrier(0).unwrap();
                memory.put_with_signal(other.into(), 5, source(&[round; 99]), 0).unwrap();
                memory.wait_signal(other.into(), 0).unwrap();
                assert_eq!(read_own(&memory, 5, 99), [round; 99]);
            };
            (0..3).for_each(turn);
            let before = holdings();
            (0..40).for_each(turn);
            // Those who give it back are threads, and take a moment.
            let began = Instant::now();
            while holdings().iter().zip(before).any(|(now, before)| *now > before + SLACK) {
                let (now, waited) = (holdings(), began.elapsed());
                assert!(waited < Duration::from_secs(30), "{now:?}, and {before:?} before");
                thread::sleep(Duration::from_millis(20));
            }
            let there =
                calls::all_reduce(upload(&device(&group), &[1_f32]), Dtype::F32, ReduceOp::Sum);
            group.call_async(there).unwrap().wait().unwrap();
        })
        .expect_all();
}

/// How many threads, descriptors and mappings this process has.
fn holdings() -> [usize; 3] {
    let count = |folder| fs::read_dir(folder).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    [count("/proc/self/task"), count("/proc/self/fd"), maps]
}

/// Allocators and thread pools keep some; forty memories would have more.
const SLACK: usize = 20;
