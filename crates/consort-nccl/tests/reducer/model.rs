//! A model of several dtypes whose gradients every rank can compute for all others.

use consort::device::Memory;
use consort::{Dtype, Group, bf16, f16};
use consort_train::{Caps, Options, Parameter, Pass, Reduced, Reducer};

use crate::stage::{device, upload};

/// Parameters of all dtypes, of odd sizes from none to more than a bucket holds.
pub(crate) fn parameters() -> Vec<Parameter> {
    let parameter = |at: usize| {
        let dtype = [Dtype::F32, Dtype::Bf16, Dtype::F64, Dtype::F16, Dtype::I32][at % 5];
        let rows = [1, 7, 41, 3, 65, 0, 301][at % 7];
        Parameter::new(format!("layer {at}"), dtype, &[rows, 1 + at % 3])
    };
    (0..COUNT).map(parameter).collect()
}

/// With several buckets, on this rank's device.
pub(crate) fn on_device(group: &Group, options: Options) -> Reducer {
    on_host(group, options.on_device(device(group)))
}

/// The same where the options say.
pub(crate) fn on_host(group: &Group, options: Options) -> Reducer {
    let caps = Caps::list([512, 4096]).unwrap();
    Reducer::new(group, parameters(), options.caps(caps)).unwrap()
}

/// A rank's gradient of a parameter in a pass: whole numbers, of which each place has its own, that every dtype has,
/// as it has their averages.
pub(crate) fn gradient(world: usize, rank: usize, pass: u64, index: usize) -> Vec<u8> {
    let code = |at: usize| (at * 7 + rank * 31 + index * 11 + pass as usize * 13) % 41;
    let parameter = &parameters()[index];
    as_bytes(parameter.dtype(), (0..parameter.len()).map(|at| (code(at) * world) as f32))
}

/// The average over those of the ranks that have one, if it is divided by so much.
pub(crate) fn average(
    ranks: &[usize],
    world: usize,
    divisor: usize,
    pass: u64,
    index: usize,
) -> Vec<u8> {
    let parameter = &parameters()[index];
    let mut sum = vec![0.0; parameter.len()];
    for &rank in ranks {
        let mine = as_numbers(parameter.dtype(), &gradient(world, rank, pass, index));
        sum.iter_mut().zip(mine).for_each(|(sum, mine)| *sum += mine);
    }
    as_bytes(parameter.dtype(), sum.iter().map(|sum| sum / divisor as f32))
}

/// Gives these gradients of this rank's from its device. What was given may be dropped when the pass has taken it.
pub(crate) fn give(
    group: &Group,
    reducer: &Reducer,
    pass: &Pass,
    order: impl IntoIterator<Item = usize>,
) {
    for index in order {
        let dtype = reducer.parameters()[index].dtype();
        let mine = mine((group, reducer), pass.number(), index);
        pass.ready_on_device(index, dtype, mine.source()).unwrap();
    }
}

/// This rank's gradient on the reducer's device.
pub(crate) fn mine((group, reducer): (&Group, &Reducer), pass: u64, index: usize) -> Memory {
    let device = reducer.device().expect("gradients are on one");
    upload(device, &gradient(group.world(), group.rank().index(), pass, index))
}

/// Looks at all averages of a pass in which every rank had every gradient.
pub(crate) fn check(group: &Group, pass: u64, averages: &Reduced) {
    let (world, all) = (group.world(), (0..group.world()).collect::<Vec<_>>());
    for index in 0..COUNT {
        let expected = average(&all, world, world, pass, index);
        assert_eq!(download(averages, index), Some(expected), "pass {pass}, layer {index}");
    }
}

/// An average as the host has it.
pub(crate) fn download(averages: &Reduced, index: usize) -> Option<Vec<u8>> {
    let mut room = vec![0xa5; parameters()[index].bytes()];
    averages.copy_to(index, &mut room).unwrap().then_some(room)
}

/// One whole pass.
pub(crate) fn step(group: &Group, reducer: &Reducer) {
    let pass = reducer.begin().unwrap();
    let number = pass.number();
    give(group, reducer, &pass, (0..COUNT).rev());
    check(group, number, &pass.finish().unwrap());
}

pub(crate) fn as_bytes(dtype: Dtype, numbers: impl Iterator<Item = f32>) -> Vec<u8> {
    match dtype {
        Dtype::F32 => numbers.flat_map(f32::to_ne_bytes).collect(),
        Dtype::F64 => numbers.flat_map(|it| f64::from(it).to_ne_bytes()).collect(),
        Dtype::F16 => numbers.flat_map(|it| f16::from_f32(it).to_ne_bytes()).collect(),
        Dtype::Bf16 => numbers.flat_map(|it| bf16::from_f32(it).to_ne_bytes()).collect(),
        Dtype::I32 => numbers.flat_map(|it| (it as i32).to_ne_bytes()).collect(),
        _ => unreachable!("no parameter is of {dtype}"),
    }
}

pub(crate) fn as_numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    macro_rules! each {
        ($size:literal, $make:expr) => {
            bytes.as_chunks::<$size>().0.iter().map(|it| $make(*it)).collect()
        };
    }
    match dtype {
        Dtype::F32 => each!(4, f32::from_ne_bytes),
        Dtype::F64 => each!(8, |it| f64::from_ne_bytes(it) as f32),
        Dtype::F16 => each!(2, |it| f16::from_ne_bytes(it).to_f32()),
        Dtype::Bf16 => each!(2, |it| bf16::from_ne_bytes(it).to_f32()),
        Dtype::I32 => each!(4, |it| i32::from_ne_bytes(it) as f32),
        _ => unreachable!("no parameter is of {dtype}"),
    }
}

pub(crate) const COUNT: usize = 20;
