//! Values in the memory of devices: the calls of `consort::functional` on them.

use std::sync::Arc;

use consort::device::Memory;
use consort::functional::{
    Array, Collective, Meta, OnDevice, coalesced_on_device, start, start_on_device,
};
use consort::{Dtype, Group, ReduceOp};

use crate::stage::{device, download, meet, upload, with_devices};

/// Whole numbers of which each rank and each place has its own.
fn coded(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 13 + rank * 31) % 97) as f32).collect()
}

fn on_device(group: &Group, shape: &[usize], numbers: &[f32]) -> OnDevice {
    let (meta, memory) = (Meta::new(Dtype::F32, shape), upload(&device(group), numbers));
    OnDevice { meta, memory, back_through: None }
}

fn numbers(memory: &Arc<Memory>) -> Vec<f32> {
    download(memory)
}

/// Those that cut and join along the first dimension, or none.
fn calls(world: usize) -> Vec<Collective> {
    let (op, root) = (ReduceOp::Sum, (world as u32 - 1).into());
    let rows = vec![1; world];
    vec![
        Collective::AllReduce { op },
        Collective::Reduce { op, root },
        Collective::Broadcast { root },
        Collective::AllGather { dim: 0 },
        Collective::ReduceScatter { op, dim: 0 },
        Collective::AllToAll,
        Collective::AllToAllUneven { to: rows.clone(), from: rows },
    ]
}

mod values_on_devices_become_what_they_become_on_the_host {
    use crate::stage::with_devices;

    #[test]
    fn alone() {
        with_devices(1).start(|ctx| super::compare(&super::meet(ctx))).expect_all();
    }

    #[test]
    fn between_three() {
        with_devices(3).start(|ctx| super::compare(&super::meet(ctx))).expect_all();
    }
}

fn compare(group: &Group) {
    let shape = [group.world(), 5];
    let mine = coded(group.rank().index(), 5 * group.world());
    let here = |call: &Collective| {
        let x = Array::new(shape, mine.clone()).unwrap();
        start(call.clone(), &x, group).unwrap().wait().unwrap().into_numbers()
    };
    for call in calls(group.world()) {
        let x = on_device(group, &shape, &mine);
        let there = start_on_device(call.clone(), x, group).unwrap().wait().unwrap();
        assert_eq!(numbers(&there), here(&call), "{call}");
    }
    let together = calls(group.world()).into_iter();
    let together = together.map(|call| (call, on_device(group, &shape, &mine)));
    let there = coalesced_on_device(together.collect(), group).unwrap().wait().unwrap();
    for (call, there) in calls(group.world()).iter().zip(&there) {
        assert_eq!(numbers(there), here(call), "{call}");
    }
}

#[test]
fn parts_along_another_dimension_lie_in_one_piece() {
    let ran = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        // Two rows of three numbers each; rank 0's are 0 to 5, rank 1's 10 to 15.
        let mine: Vec<f32> = (0..6).map(|at| (10 * me + at) as f32).collect();
        let x = on_device(&group, &[2, 3], &mine);
        let all = start_on_device(Collective::AllGather { dim: 1 }, x, &group).unwrap();
        let parts = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15].map(|number| number as f32);
        assert_eq!(numbers(&all.wait().unwrap()), parts);
        let x = on_device(&group, &[3, 4], &coded(me, 12));
        let scatter = Collective::ReduceScatter { op: ReduceOp::Sum, dim: 1 };
        let mine = start_on_device(scatter, x, &group).unwrap().wait().unwrap();
        let sum = |at: usize| coded(0, 12)[at] + coded(1, 12)[at];
        assert_eq!(numbers(&mine), (6 * me..6 * me + 6).map(sum).collect::<Vec<_>>());
    });
    ran.expect_all();
}

#[test]
fn what_makes_no_sense_is_refused_and_the_group_goes_on() {
    let ran = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let sum = || Collective::AllReduce { op: ReduceOp::Sum };
        let refused = |call, shape: &[usize], count| {
            let x = on_device(&group, shape, &coded(0, count));
            start_on_device(call, x, &group).map(drop).unwrap_err().to_string()
        };
        let error = refused(sum(), &[4], 3);
        assert!(error.contains("12 bytes of a device are not f32 [4]"), "{error}");
        let pairs = vec![(0.into(), 1.into())];
        let error = refused(Collective::Permute { pairs }, &[4], 4);
        assert!(error.contains("copy the value to the host"), "{error}");
        let error = refused(Collective::AllToAll, &[3], 3);
        assert!(error.contains("cannot share equally"), "{error}");
        let x = on_device(&group, &[4], &coded(0, 4));
        start_on_device(sum(), x, &group).unwrap().wait().unwrap();
    });
    ran.expect_all();
}
