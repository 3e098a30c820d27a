//! What comes of gradients on devices.

use consort::{Dtype, Group};
use consort_testkit::Context;
use consort_train::{Caps, Noop, Options, Parameter, PostLocalSgd, Reducer, Uneven, Unused};

use crate::model::{
    COUNT, as_numbers, average, check, download, give, gradient, on_device, on_host, parameters,
    step,
};
use crate::stage::{device, in_worlds, meet, upload, with_devices};

in_worlds! {
    averages_on_devices_are_those_on_the_host
    what_is_rounded_is_the_same_on_all_ranks_bit_by_bit
    a_gradient_that_did_not_come_counts_as_zeroes
}

/// Several passes, so that buckets are made anew in between, in an order that rank 0 alone has seen.
fn averages_on_devices_are_those_on_the_host(ctx: &Context) {
    let group = meet(ctx);
    let (there, here) = (on_device(&group, Options::new()), on_host(&group, Options::new()));
    assert_eq!(there.device().map(|it| it.number()), Some(group.local_rank() as u16));
    assert!(there.buckets().len() > 3 && here.device().is_none());
    let me = group.rank().index();
    for round in 0..4 {
        let order: Vec<usize> = (0..COUNT).map(|at| (at * 7 + me + 3) % COUNT).collect();
        let (pass, other) = (there.begin().unwrap(), here.begin().unwrap());
        let number = pass.number();
        give(&group, &there, &pass, order.iter().copied());
        for &index in &order {
            let dtype = here.parameters()[index].dtype();
            other.ready_bytes(index, dtype, &gradient(group.world(), me, number, index)).unwrap();
        }
        let (averages, others) = (pass.finish().unwrap(), other.finish().unwrap());
        check(&group, number, &averages);
        for index in 0..COUNT {
            assert_eq!(download(&averages, index), download(&others, index), "layer {index}");
        }
        let stats = there.stats();
        assert_eq!((stats.is_rebuilt, stats.averaged), (round > 0, round + 1));
        let places = format!("buckets        {}", stats.bucket_bytes.len());
        let text = stats.to_string();
        assert!(text.contains(&places) && text.contains(", on device "), "{text}");
        assert_eq!(there.times().unwrap().buckets.len(), there.buckets().len());
    }
    assert_eq!(there.buckets(), here.buckets());
}

fn what_is_rounded_is_the_same_on_all_ranks_bit_by_bit(ctx: &Context) {
    let group = meet(ctx);
    let (me, world) = (group.rank().index(), group.world());
    let dtypes = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];
    let parameters = dtypes.map(|dtype| Parameter::new(dtype.name(), dtype, &[1237]));
    let options = Options::new().on_device(device(&group)).caps(Caps::of(4096).unwrap());
    let reducer = Reducer::new(&group, parameters.to_vec(), options).unwrap();
    let number = |rank: usize, at: usize| ((at * 31 + rank * 17 + 1) as f32).sqrt() / 7.0;
    let pass = reducer.begin().unwrap();
    for (index, dtype) in dtypes.into_iter().enumerate() {
        let mine = crate::model::as_bytes(dtype, (0..1237).map(|at| number(me, at)));
        pass.ready_on_device(index, dtype, upload(&device(&group), &mine).source()).unwrap();
    }
    let averages = pass.finish().unwrap();
    for (index, dtype) in dtypes.into_iter().enumerate() {
        let mut mine = vec![0; 1237 * dtype.size()];
        assert!(averages.copy_to(index, &mut mine).unwrap());
        let mut all = vec![0; mine.len() * world];
        group.all_gather(&mine, &mut all).unwrap();
        assert!(all.chunks_exact(mine.len()).all(|its| its == mine), "{dtype}");
        for (at, found) in as_numbers(dtype, &mine).into_iter().enumerate() {
            let sum: f32 = (0..world).map(|rank| number(rank, at)).sum();
            let precision = if dtype.size() == 2 { 0.02 } else { 1e-5 };
            assert!((found - sum / world as f32).abs() <= found.abs() * precision, "{dtype} {at}");
        }
    }
}

/// The averages of a pass in which some ranks had some gradients.
fn a_gradient_that_did_not_come_counts_as_zeroes(ctx: &Context) {
    let group = meet(ctx);
    let (me, world) = (group.rank().index(), group.world());
    let reducer = on_device(&group, Options::new());
    // Parameter 4 nowhere, every third only on the last rank.
    let has =
        |rank: usize, index: usize| index != 4 && (!index.is_multiple_of(3) || rank + 1 == world);
    // What earlier passes have left in the buckets must not be seen.
    step(&group, &reducer);
    for _ in 0..3 {
        let pass = reducer.begin().unwrap();
        let number = pass.number();
        give(&group, &reducer, &pass, (0..COUNT).filter(|&index| has(me, index)));
        let mut seen = Vec::new();
        let averages = pass
            .finish_with(|index, bytes| {
                seen.push((index, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
        for index in 0..COUNT {
            let ranks: Vec<usize> = (0..world).filter(|&rank| has(rank, index)).collect();
            let expected =
                (!ranks.is_empty()).then(|| average(&ranks, world, world, number, index));
            assert_eq!(averages.is_used(index), expected.is_some());
            assert_eq!(download(&averages, index), expected, "layer {index}");
        }
        assert_eq!(seen.len(), COUNT - 1);
        for (index, bytes) in seen {
            assert_eq!(download(&averages, index), Some(bytes), "layer {index}");
        }
    }
    step(&group, &reducer);
}

#[test]
fn one_without_a_gradient_is_named_on_every_rank_if_that_is_refused() {
    let told = with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new().unused(Unused::Refuse));
            step(&group, &reducer);
            let pass = reducer.begin().unwrap();
            let missing = if ctx.rank() == 1 { 7 } else { COUNT };
            for index in (0..COUNT).filter(|&index| index != missing) {
                let mine = crate::model::mine((&group, &reducer), 2, index);
                let dtype = reducer.parameters()[index].dtype();
                if let Err(error) = pass.ready_on_device(index, dtype, mine.source()) {
                    return error.to_string();
                }
            }
            pass.finish().unwrap_err().to_string()
        })
        .expect_all();
    assert!(told.iter().all(|text| text.contains("\"layer 7\"")), "{told:?}");
}

/// Trains with as many inputs as each rank has, and looks at each average.
fn train(group: &Group, reducer: &Reducer, uneven: Uneven, inputs: &[u64]) -> u64 {
    let (me, world) = (group.rank().index(), group.world());
    let mut join = reducer.join(uneven).unwrap();
    for input in 0..inputs[me] {
        let pass = join.begin().unwrap().unwrap();
        let number = pass.number();
        give(group, reducer, &pass, (0..reducer.parameters().len()).rev());
        let averages = pass.finish().unwrap();
        let live: Vec<usize> = (0..world).filter(|&rank| inputs[rank] > input).collect();
        let divisor = if uneven == Uneven::DivideByLive { live.len() } else { world };
        for (index, parameter) in reducer.parameters().iter().enumerate() {
            let numbers = |bytes: &[u8]| as_numbers(parameter.dtype(), bytes);
            let expected = numbers(&average(&live, world, divisor, number, index));
            let found = numbers(&download(&averages, index).unwrap());
            let is_near = |(one, other): (&f32, &f32)| (one - other).abs() <= one.abs() * 0.01;
            assert_eq!(found.len(), expected.len());
            assert!(expected.iter().zip(&found).all(is_near), "{found:?} {expected:?}");
        }
    }
    join.finish().unwrap().shadowed
}

#[test]
fn who_has_no_more_input_takes_part_with_zeroes_on_its_device() {
    let shadowed = with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new());
            train(&group, &reducer, Uneven::DivideByWorld, &[1, 4, 3])
        })
        .expect_all();
    assert_eq!(shadowed, [3, 0, 1]);
}

#[test]
fn sums_of_floats_are_divided_by_those_who_have_an_input_if_asked() {
    let shadowed = with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            // The first of the model is of f32, the next of bf16, f64 and f16.
            let options = Options::new().on_device(device(&group));
            let floats = parameters().into_iter().take(4).collect();
            let reducer = Reducer::new(&group, floats, options).unwrap();
            train(&group, &reducer, Uneven::DivideByLive, &[4, 1, 3])
        })
        .expect_all();
    assert_eq!(shadowed, [0, 3, 1]);
}

#[test]
fn ranks_that_average_in_parts_have_those_of_their_part() {
    with_devices(4)
        .start(|ctx| {
            let group = meet(ctx);
            let hook = PostLocalSgd::new(1)
                .within_part(|group| group.split(Some(group.rank().get() % 2), 0));
            let reducer = on_device(&group, Options::new().hook(hook));
            step(&group, &reducer);
            let part: Vec<usize> =
                (0..4).filter(|rank| rank % 2 == group.rank().index() % 2).collect();
            for number in 2..5 {
                let pass = reducer.begin().unwrap();
                give(&group, &reducer, &pass, 0..COUNT);
                let averages = pass.finish().unwrap();
                for index in 0..COUNT {
                    let expected = average(&part, 4, 2, number, index);
                    assert_eq!(download(&averages, index), Some(expected), "layer {index}");
                }
            }
        })
        .expect_all();
}

#[test]
fn without_averaging_every_rank_has_its_own() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let reducer = on_device(&group, Options::new().hook(Noop));
            for number in 1..3 {
                let pass = reducer.begin().unwrap();
                give(&group, &reducer, &pass, 0..COUNT);
                let averages = pass.finish().unwrap();
                for index in 0..COUNT {
                    let expected = gradient(2, group.rank().index(), number, index);
                    assert_eq!(download(&averages, index), Some(expected), "layer {index}");
                }
            }
        })
        .expect_all();
}

#[test]
fn sizes_of_buckets_are_measured_on_devices() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let options = Options::new().on_device(device(&group)).caps(Caps::auto());
            let reducer = Reducer::new(&group, parameters(), options).unwrap();
            (0..7).for_each(|_| step(&group, &reducer));
            assert!(reducer.stats().are_caps_measured);
        })
        .expect_all();
}
