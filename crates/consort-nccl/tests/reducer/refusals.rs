//! What is not to be had on devices, and what to do instead.

use consort::{Dtype, ErrorKind, Group};
use consort_train::{
    Bucket, Cast, CommHook, Error, Int8, Options, Parameter, Pending, PowerSgd, Reducer, Round,
    Uneven,
};

use crate::model::{give, on_device, on_host, parameters, step};
use crate::stage::{device, meet, upload, with_devices};

/// A hook that has never heard of devices.
struct Plain;

impl CommHook for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        round.average(bucket)
    }
}

fn one(name: &str, dtype: Dtype) -> Parameter {
    Parameter::new(name, dtype, &[4, 3])
}

#[test]
fn what_takes_kernels_is_refused_when_the_reducer_is_made() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let on_device = |options: Options| options.on_device(device(&group));
            let refuse = |parameters: Vec<Parameter>, options: Options, words: &[&str]| {
                let error = Reducer::new(&group, parameters, on_device(options)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Mistake, "{error}");
                let text = error.to_string();
                assert!(words.iter().all(|words| text.contains(words)), "{text}");
            };
            let some = || vec![one("w", Dtype::F32)];
            let hooks: [Box<dyn CommHook>; 4] = [
                Box::new(Cast::bf16()),
                Box::new(Int8::new()),
                Box::new(PowerSgd::new()),
                Box::new(Plain),
            ];
            for hook in hooks {
                let name = format!("the communication hook {:?}", hook.name());
                let words = [&name, "use Average", "CommHook::works_on_devices"];
                refuse(some(), Options::new().hook(hook), &words);
            }
            let mixed = vec![one("w", Dtype::F32), one("half", Dtype::F16)];
            let words = ["\"half\" are of f16", "converted to f32", "leave Options::reduce_as out"];
            refuse(mixed, Options::new().reduce_as(Dtype::F32), &words);
            let sparse = vec![one("w", Dtype::F32), one("table", Dtype::F32).sparse().unwrap()];
            refuse(sparse, Options::new(), &["\"table\" is sparse", "as a whole"]);
            refuse(
                some(),
                Options::new().adopt(0),
                &["one of Options::adopt and Options::on_device"],
            );
            refuse(
                vec![one("w", Dtype::F32), one("short", Dtype::I16)],
                Options::new(),
                &[
                    "gradients of \"short\" cannot be averaged on devices",
                    "NCCL does not combine i16",
                ],
            );
            // What converts nothing is fine.
            let options = on_device(Options::new().reduce_as(Dtype::F32));
            drop(Reducer::new(&group, some(), options).unwrap());
            step(&group, &crate::model::on_device(&group, Options::new()));
        })
        .expect_all();
}

#[test]
fn another_device_than_the_groups_is_refused_on_all_ranks() {
    let told = with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            let number = if group.rank() == 1 { 9 } else { group.local_rank() as u16 };
            let other = consort::device::Driver::load().unwrap().device(number).unwrap();
            let options = Options::new().on_device(other);
            let error = Reducer::new(&group, vec![one("w", Dtype::F32)], options).unwrap_err();
            step(&group, &reducer);
            error.to_string()
        })
        .expect_all();
    let words = "Options::on_device says device 9, and the group's calls on devices are carried out on device 1";
    assert!(told.iter().all(|text| text.contains("rank 1") && text.contains(words)), "{told:?}");
}

#[test]
fn what_cannot_be_done_with_a_pass_is_refused_and_the_pass_goes_on() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            let refused = |error: Error, words: &str| {
                assert_eq!(error.kind(), ErrorKind::Mistake, "{error}");
                assert!(error.to_string().contains(words), "{error}");
            };
            refused(reducer.begin_local().unwrap_err(), "give the sum in a pass that is averaged");
            refused(reducer.places().unwrap_err(), "Options::in_place");
            let pass = reducer.begin().unwrap();
            let error = pass.ready_with(0, |_: &mut [f32], _| Ok(())).unwrap_err();
            refused(error, "use Pass::ready_on_device");
            let number = upload(&device(&group), &[1.0_f32]);
            let error = pass.ready_on_device(0, Dtype::F64, number.source()).unwrap_err();
            assert!(matches!(error, Error::Gradient { .. }), "{error}");
            let here = [0_u8; 4];
            let error = pass.ready_on_device(0, Dtype::F32, (&here[..]).into()).unwrap_err();
            refused(error, "is in memory of the host, and buckets are in that of device");
            let other = consort::device::Driver::load().unwrap().device(9).unwrap();
            let elsewhere = upload(&other, &[1.0_f32]);
            let error = pass.ready_on_device(0, Dtype::F32, elsewhere.source()).unwrap_err();
            refused(error, "is in memory of device 9");
            let error = pass.ready_rows(0, &[0], &[1.0_f32]).unwrap_err();
            assert!(matches!(error, Error::Gradient { .. }), "{error}");
            give(&group, &reducer, &pass, (0..20).rev());
            let error = pass.ready_on_device(0, Dtype::F32, number.source()).unwrap_err();
            assert!(matches!(error, Error::Twice { .. }), "{error}");
            let averages = pass.finish().unwrap();
            crate::model::check(&group, 1, &averages);
            let error = averages.gradient::<f32>(0).unwrap_err();
            refused(error, "Reduced::copy_to_device copies it within the device");
            let mut room = elsewhere;
            let error = averages.copy_to_device(0, room.target()).unwrap_err();
            refused(error, "bytes of device 9 cannot be copied within device");
            let mut room = upload(&device(&group), &[0_u8; 5]);
            refused(
                averages.copy_to_device(0, room.target()).unwrap_err(),
                "room of 5 bytes for 4",
            );
            drop(averages);
            step(&group, &reducer);
        })
        .expect_all();
}

#[test]
fn parts_of_a_gradient_are_not_added_up() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new().static_graph());
            let pass = reducer.begin().unwrap();
            give(&group, &reducer, &pass, 0..20);
            let number = upload(&device(&group), &[1.0_f32]);
            for error in [
                pass.ready_on_device(0, Dtype::F32, number.source()).unwrap_err(),
                pass.ready(0, &[1.0_f32]).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(
                    text.contains("\"layer 0\"") && text.contains("give the sum once"),
                    "{text}"
                );
            }
            crate::model::check(&group, 1, &pass.finish().unwrap());
            (0..3).for_each(|_| step(&group, &reducer));
        })
        .expect_all();
}

#[test]
fn sums_of_whole_numbers_are_divided_by_all_ranks_alone() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            let error = reducer.join(Uneven::DivideByLive).map(drop).unwrap_err();
            assert!(error.to_string().contains("are of i32, whose sums"), "{error}");
            step(&group, &reducer);
            // On the host they are.
            let here = on_host(&group, Options::new());
            here.join(Uneven::DivideByLive).unwrap().finish().unwrap();
        })
        .expect_all();
}

/// Divides by something else than it is asked to.
struct Twice;

impl CommHook for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        Round { group: round.group, divisor: 1, pass: round.pass }.average(bucket)
    }

    fn works_on_devices(&self) -> bool {
        true
    }
}

#[test]
fn a_hook_that_divides_whole_numbers_by_something_else_is_told() {
    let told = with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let make = |dtype| {
                let options = Options::new().on_device(device(&group)).hook(Twice);
                Reducer::new(&group, vec![Parameter::new("w", dtype, &[3])], options).unwrap()
            };
            let (floats, wholes) = (make(Dtype::F32), make(Dtype::I32));
            let pass = floats.begin().unwrap();
            pass.ready(0, &[1.0_f32, 2.0, 3.0]).unwrap();
            let sums = pass.finish().unwrap().take::<f32>(0).unwrap();
            assert_eq!(sums, Some(vec![2.0, 4.0, 6.0]));
            let pass = wholes.begin().unwrap();
            pass.ready(0, &[1_i32, 2, 3])
                .map(drop)
                .and_then(|()| pass.finish().map(drop))
                .unwrap_err()
                .to_string()
        })
        .expect_all();
    let words = "sums of i32 are divided by the number of ranks, 2, and not by 1 on devices";
    assert!(told.iter().all(|text| text.contains(words)), "{told:?}");
}

#[test]
fn gradients_of_devices_are_refused_by_a_reducer_of_the_host() {
    with_devices(1)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_host(&group, Options::new());
            let pass = reducer.begin().unwrap();
            let number = upload(&device(&group), &[1.0_f32]);
            let error = pass.ready_on_device(0, Dtype::F32, number.source()).unwrap_err();
            assert!(error.to_string().contains("say Options::on_device"), "{error}");
            pass.ready(0, &[1.0_f32]).unwrap();
            let averages = pass.finish().unwrap();
            let error = averages.gradient_on_device(0).unwrap_err();
            assert!(error.to_string().contains("say Options::on_device"), "{error}");
            let mut room = number;
            let error = averages.copy_to_device(0, room.target()).unwrap_err();
            assert!(error.to_string().contains("say Options::on_device"), "{error}");
        })
        .expect_all();
}

#[test]
fn ranks_that_differ_in_where_gradients_are_are_all_shown_both() {
    let told = with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let where_they_are = |group: &Group| match ctx.rank() {
                2 => Options::new(),
                _ => Options::new().on_device(device(group)),
            };
            let error = Reducer::new(&group, parameters(), where_they_are(&group)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            step(&group, &on_device(&group, Options::new()));
            error.to_string()
        })
        .expect_all();
    let both = "memory of gradients: rank 0 has devices', rank 2 has the host's";
    assert!(told.iter().all(|text| text.contains(both) && *text == told[0]), "{told:?}");
}
