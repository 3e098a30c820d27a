//! The ways by which gradients come to devices, and averages from there.

use std::sync::Mutex;

use consort::device::Device;
use consort::{Dtype, Space, Target};
use consort_train::{Bucket, CommHook, Error, Options, Parameter, Pending, Reducer, Round};

use crate::model::{
    COUNT, average, check, download, give, gradient, mine, on_device, parameters, step,
};
use crate::stage::{self, device, meet, upload, with_devices};

#[test]
fn gradients_may_come_from_the_host() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            for _ in 0..3 {
                let pass = reducer.begin().unwrap();
                let number = pass.number();
                for (index, parameter) in reducer.parameters().iter().enumerate() {
                    let mine = gradient(2, group.rank().index(), number, index);
                    match index {
                        // One with memory that could be given away, some from the device.
                        0 => pass
                            .ready_owned(0, crate::model::as_numbers(Dtype::F32, &mine))
                            .unwrap(),
                        _ if index % 2 == 0 => give(&group, &reducer, &pass, [index]),
                        _ => pass.ready_bytes(index, parameter.dtype(), &mine).unwrap(),
                    }
                }
                check(&group, number, &pass.finish().unwrap());
            }
        })
        .expect_all();
}

#[test]
fn averages_go_to_memory_of_the_device_or_are_looked_at_where_they_are() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let (device, reducer) = (device(&group), on_device(&group, Options::new()));
            let own = Space::Device(device.number());
            let pass = reducer.begin().unwrap();
            give(&group, &reducer, &pass, 0..COUNT);
            let mut seen = Mutex::new(Vec::new());
            let mut averages = pass
                .finish_with_views(|index, view| {
                    assert_eq!(view.space(), own);
                    let mut copy = device.allocate(view.len())?;
                    copy.copy_from(0, view)?;
                    seen.lock().unwrap().push((index, stage::download::<u8>(&copy)));
                    Ok(())
                })
                .unwrap();
            let seen = seen.get_mut().unwrap();
            seen.sort();
            assert_eq!(seen.len(), COUNT);
            for (index, parameter) in reducer.parameters().iter().enumerate() {
                let expected = average(&[0, 1], 2, 2, 1, index);
                assert_eq!(seen[index], (index, expected.clone()));
                let view = averages.gradient_on_device(index).unwrap().unwrap();
                assert_eq!((view.space(), view.len()), (own, parameter.bytes()));
                // Into the middle of a larger tensor.
                let mut room = upload(&device, &vec![7_u8; parameter.bytes() + 20]);
                let part = room.target().slice(9..9 + parameter.bytes());
                assert!(averages.copy_to_device(index, part).unwrap());
                let all = stage::download::<u8>(&room);
                assert_eq!(all[9..all.len() - 11], expected);
                assert!(all[..9].iter().chain(&all[all.len() - 11..]).all(|&byte| byte == 7));
            }
            let first = averages.take::<f32>(0).unwrap().unwrap();
            assert_eq!(first, crate::model::as_numbers(Dtype::F32, &average(&[0, 1], 2, 2, 1, 0)));
            // It is a copy: the average is still there.
            assert!(averages.gradient_on_device(0).unwrap().is_some());
        })
        .expect_all();
}

/// What an engine does that has kernels: it knows addresses, and writes there.
fn write_at(device: &Device, address: usize, bytes: &[u8]) {
    let Some(start) = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(address)) else {
        panic!("nothing lies there");
    };
    // SAFETY: it is the place of a gradient of so many bytes, which the test keeps.
    let place = unsafe { Target::on_device(start, bytes.len(), device.number()) };
    upload(device, bytes).copy_to(0, place).unwrap();
}

/// Also in local passes, whose gradients the engine adds up; and over the pass in which buckets are made anew.
#[test]
fn an_engine_writes_gradients_on_the_device_where_they_travel() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let (device, reducer) = (device(&group), on_device(&group, Options::new().in_place()));
            let me = group.rank().index();
            for round in 0..3 {
                let local = reducer.begin_local().unwrap();
                let places = local.places().unwrap().clone();
                assert_eq!(places.space(), Space::Device(device.number()));
                for index in 0..COUNT {
                    let place = places.of(index).unwrap();
                    assert_eq!(place.bytes, parameters()[index].bytes());
                    write_at(&device, place.address, &vec![0x11; place.bytes]);
                    local.ready_in_place(index).unwrap();
                }
                drop(local.finish().unwrap());
                let pass = reducer.begin().unwrap();
                let number = pass.number();
                let places = pass.places().unwrap();
                assert_eq!(places.generation(), if round == 0 { 1 } else { 2 });
                // All but the first: of that the local pass's is what there is.
                for index in (1..COUNT).map(|at| 1 + at * 7 % (COUNT - 1)) {
                    let place = places.of(index).unwrap();
                    write_at(&device, place.address, &gradient(2, me, number, index));
                    pass.ready_in_place(index).unwrap();
                }
                let averages = pass.finish().unwrap();
                for index in 1..COUNT {
                    let expected = average(&[0, 1], 2, 2, number, index);
                    assert_eq!(download(&averages, index), Some(expected), "layer {index}");
                }
                assert_eq!(download(&averages, 0), Some(vec![0x11; 4]), "round {round}");
            }
        })
        .expect_all();
}

#[test]
fn a_static_graph_without_parts_is_reduced() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new().static_graph());
            (0..4).for_each(|_| step(&group, &reducer));
            assert!(reducer.stats().is_rebuilt);
            // A parameter that never comes is zero from the second pass on.
            let reducer = on_device(&group, Options::new().static_graph());
            for _ in 0..4 {
                let pass = reducer.begin().unwrap();
                give(&group, &reducer, &pass, 1..COUNT);
                let averages = pass.finish().unwrap();
                assert!(!averages.is_used(0) && averages.is_used(1));
            }
        })
        .expect_all();
}

/// Counts buckets, and leaves them to the group.
struct Counting;

impl CommHook for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn start(&mut self, mut bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        // There is nothing to look at, which is told.
        assert!(bucket.bytes().is_empty() && bucket.bytes_mut().is_empty());
        assert!(bucket.gradients().all(|it| it.bytes.is_empty()));
        assert!(matches!(bucket.source().space(), Space::Device(_)));
        if bucket.dtype() == Dtype::F32 {
            let error = bucket.elements::<f32>().unwrap_err();
            assert!(error.to_string().contains("Bucket::target"), "{error}");
        }
        round.average(bucket)
    }

    fn works_on_devices(&self) -> bool {
        true
    }
}

#[test]
fn a_hook_of_the_programs_may_leave_buckets_on_devices_to_the_group() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let hook: Box<dyn CommHook> = Box::new(Counting);
            let reducer = on_device(&group, Options::new().hook(hook));
            (0..3).for_each(|_| step(&group, &reducer));
        })
        .expect_all();
}

/// Gradients come from several threads, as they may on the host.
#[test]
fn threads_bring_gradients_of_one_device() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            for _ in 0..3 {
                let pass = reducer.begin().unwrap();
                let number = pass.number();
                std::thread::scope(|scope| {
                    for first in 0..3 {
                        let (pass, group, reducer) = (&pass, &group, &reducer);
                        scope.spawn(move || {
                            for index in (first..COUNT).step_by(3) {
                                let dtype = reducer.parameters()[index].dtype();
                                let mine = mine((group, reducer), number, index);
                                pass.ready_on_device(index, dtype, mine.source()).unwrap();
                            }
                        });
                    }
                });
                check(&group, number, &pass.finish().unwrap());
            }
        })
        .expect_all();
}

#[test]
fn a_reducer_without_parameters_has_nothing_to_do_on_a_device() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let options = || Options::new().on_device(device(&group));
            let reducer = Reducer::new(&group, Vec::new(), options()).unwrap();
            drop(reducer.begin().unwrap().finish().unwrap());
            let none = vec![Parameter::new("none", Dtype::F32, &[0, 3])];
            let reducer = Reducer::new(&group, none, options()).unwrap();
            for _ in 0..2 {
                let pass = reducer.begin().unwrap();
                pass.ready(0, &[] as &[f32]).unwrap();
                assert!(pass.finish().unwrap().gradient_on_device(0).unwrap().unwrap().is_empty());
            }
        })
        .expect_all();
}
