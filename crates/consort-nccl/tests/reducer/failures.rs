//! Ranks that die, devices without memory, and ranks without devices.

use consort::device::Memory;
use consort::{Dtype, ErrorKind, Group};
use consort_testkit::{Ranks, limit, used_addresses};
use consort_train::{Caps, Error, Options, Parameter, Pass, Reduced, Reducer};
use rustix::process::Resource;

use crate::model::{COUNT, give, mine, on_device, parameters, step};
use crate::stage::{all_heard_of_rank_1, device, meet, upload, with_devices, without_nccl};

/// Gives gradients of a pass that fails somewhere. Says why.
fn fail(group: &Group, reducer: &Reducer, pass: Pass) -> Error {
    for index in (0..COUNT).rev() {
        let (dtype, number) = (reducer.parameters()[index].dtype(), pass.number());
        let mine = mine((group, reducer), number, index);
        if let Err(error) = pass.ready_on_device(index, dtype, mine.source()) {
            return error;
        }
    }
    pass.finish().unwrap_err()
}

#[test]
fn the_survivors_of_a_rank_that_is_killed_in_a_pass_go_on_with_a_smaller_group() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        let reducer = on_device(&group, Options::new());
        (0..2).for_each(|_| step(&group, &reducer));
        let pass = reducer.begin().unwrap();
        if ctx.rank() == 1 {
            // Some of its buckets have gone.
            give(&group, &reducer, &pass, (COUNT / 2..COUNT).rev());
            ctx.reach("half way");
            let _: () = ctx.told("never");
        }
        ctx.reach("half way");
        let error = fail(&group, &reducer, pass);
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        assert!(matches!(reducer.begin(), Err(Error::Failed { .. })));
        let smaller = group.shrink().unwrap();
        reducer.set_group(&smaller).unwrap();
        (0..3).for_each(|_| step(&smaller, &reducer));
        assert!(reducer.stats().is_rebuilt);
        assert_eq!(smaller.world(), 2);
        error.to_string()
    });
    (0..3).for_each(|rank| job.await_point(rank, "half way"));
    job.kill(1);
    all_heard_of_rank_1(&job.wait());
}

#[test]
fn a_rank_that_is_killed_at_any_moment_is_named() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        let reducer = on_device(&group, Options::new());
        step(&group, &reducer);
        ctx.reach("at work");
        loop {
            let pass = match reducer.begin() {
                Ok(pass) => pass,
                Err(error) => return error.to_string(),
            };
            for index in 0..COUNT {
                let mine = mine((&group, &reducer), 1, index);
                let dtype = reducer.parameters()[index].dtype();
                if let Err(error) = pass.ready_on_device(index, dtype, mine.source()) {
                    return error.to_string();
                }
            }
            if let Err(error) = pass.finish() {
                return error.to_string();
            }
        }
    });
    (0..3).for_each(|rank| job.await_point(rank, "at work"));
    std::thread::sleep(std::time::Duration::from_millis(100));
    job.kill(1);
    all_heard_of_rank_1(&job.wait());
}

#[test]
fn a_pass_that_is_dropped_half_way_is_named_on_all() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let reducer = on_device(&group, Options::new());
        step(&group, &reducer);
        let pass = reducer.begin().unwrap();
        ctx.reach("begun");
        if ctx.rank() == 0 {
            let _: () = ctx.told("go on");
            give(&group, &reducer, &pass, 3..COUNT);
            // The others wait for the rest, whether or not any of its buckets has gone.
            pass.fail("backward has broken");
            return reducer.begin().unwrap_err().to_string();
        }
        fail(&group, &reducer, pass).to_string()
    });
    (0..2).for_each(|rank| job.await_point(rank, "begun"));
    job.tell("go on", &());
    let told = job.expect_all();
    assert!(told.iter().all(|text| text.contains("backward has broken")), "{told:?}");
}

#[test]
fn a_rank_without_nccl_is_named_when_the_reducer_is_made() {
    without_nccl(2)
        .start(|ctx| {
            let group = meet(ctx);
            let options = Options::new().on_device(device(&group));
            let error = Reducer::new(&group, parameters(), options).unwrap_err();
            assert!(error.to_string().contains("CONSORT_NCCL_LIBRARY"), "{error}");
            // The host's memory is as good as ever.
            drop(Reducer::new(&group, parameters(), Options::new()).unwrap());
        })
        .expect_all();
}

#[test]
fn a_device_without_memory_is_told_to_all() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            // More than any machine has; each can be addressed.
            let huge = |at| Parameter::new(format!("w{at}"), Dtype::F32, &[1 << 44]);
            let options = Options::new().on_device(device(&group));
            let error = Reducer::new(&group, (0..3).map(huge).collect(), options).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Elsewhere { rank: 0, .. }), "{text}");
            assert!(text.contains("cannot keep gradients on its device"), "{text}");
            assert!(text.contains("cuMemAlloc"), "{text}");
            step(&group, &on_device(&group, Options::new()));
        })
        .expect_all();
}

/// Ranks whose large memory is the system's, and goes back to it when it is freed: what is left can be limited.
fn with_small_devices(world: u32) -> Ranks {
    with_devices(world).env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_ARENA_MAX", "1")
}

/// Lets this rank have so much memory more than it has.
fn leave(mebibytes: u64) {
    limit(Resource::As, Some(used_addresses() + (mebibytes << 20)));
}

/// Gradients of one parameter of so many MiB.
fn large(group: &Group, mebibytes: usize, options: Options) -> (Reducer, Memory) {
    let device = device(group);
    let parameter = Parameter::new("large", Dtype::F32, &[mebibytes, 1 << 18]);
    let mine = vec![1.0 + group.rank().index() as f32; parameter.len()];
    let mine = upload(&device, &mine);
    let reducer = Reducer::new(group, vec![parameter], options.on_device(device)).unwrap();
    (reducer, mine)
}

/// A pass with it, of two ranks.
fn step_with((reducer, mine): &(Reducer, Memory)) -> Reduced {
    let pass = reducer.begin().unwrap();
    pass.ready_on_device(0, Dtype::F32, mine.source()).unwrap();
    let averages = pass.finish().unwrap();
    let mut room = vec![0_u8; mine.len()];
    assert!(averages.copy_to(0, &mut room).unwrap());
    assert!(room.as_chunks().0.iter().all(|it| f32::from_ne_bytes(*it) == 1.5));
    averages
}

#[test]
fn a_device_without_memory_to_measure_with_leaves_buckets_as_they_are_on_all() {
    with_small_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let both = large(&group, 12, Options::new().caps(Caps::auto()));
            (0..5).for_each(|_| drop(step_with(&both)));
            let before = both.0.stats();
            assert!(before.promised.is_none(), "{before}");
            if ctx.rank() == 1 {
                // Enough for two of the sizes that are tried.
                leave(5);
            }
            let pass = both.0.begin().unwrap();
            limit(Resource::As, None);
            pass.ready_on_device(0, Dtype::F32, both.1.source()).unwrap();
            drop(pass.finish().unwrap());
            let after = both.0.stats();
            assert!(after.promised.is_some(), "{after}");
            assert_eq!(after.bucket_bytes, before.bucket_bytes);
            drop(step_with(&both));
        })
        .expect_all();
}

#[test]
fn another_group_needs_no_room_for_gradients_twice() {
    with_small_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let both = large(&group, 40, Options::new().caps(Caps::list([1 << 20]).unwrap()));
            drop(step_with(&both));
            leave(24);
            both.0.set_group(&group).unwrap();
            limit(Resource::As, None);
            drop(step_with(&both));
        })
        .expect_all();
}

#[test]
fn a_reducer_whose_device_has_no_room_for_another_group_says_so_until_it_has() {
    with_small_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let both = large(&group, 40, Options::new().caps(Caps::list([1 << 20]).unwrap()));
            // Somebody looks at what is there.
            let averages = step_with(&both);
            if ctx.rank() == 1 {
                leave(24);
            }
            let error = both.0.set_group(&group).unwrap_err();
            assert!(matches!(error, Error::Elsewhere { rank: 1, .. }), "{error}");
            let refused = both.0.begin().unwrap_err();
            assert!(matches!(refused, Error::Failed { .. }), "{refused}");
            assert!(refused.to_string().contains(&error.to_string()), "{refused}");
            drop(averages);
            both.0.set_group(&group).unwrap();
            limit(Resource::As, None);
            drop(step_with(&both));
        })
        .expect_all();
}
