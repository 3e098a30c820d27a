//! Every dtype in every way, against an oracle that knows nothing of registers.

mod oracle;
mod values;

use super::*;
use oracle::expected;
use values::Values;

/// The instructions to test with: those of this processor, and none in particular.
fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Plain, Level::here()];
    levels.dedup();
    levels
}

/// Where results are to go.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// To a buffer of its own.
    Apart,
    /// To two buffers of their own.
    TwoApart,
    /// To where the numbers of a rank are.
    InPlace(usize),
    /// There, and to a buffer of its own.
    InPlaceAndApart(usize),
    /// To where the numbers of all ranks are.
    EverywhereInPlace,
}

fn goals(world: usize) -> impl Iterator<Item = Goal> {
    let in_place = (0..world).flat_map(|rank| [Goal::InPlace(rank), Goal::InPlaceAndApart(rank)]);
    [Goal::Apart, Goal::TwoApart, Goal::EverywhereInPlace].into_iter().chain(in_place)
}

/// A buffer somewhere in memory, with bytes around it that are nobody's business.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(bytes: &[u8], start: usize) -> Self {
        let mut memory = vec![0xa5; start + bytes.len() + MARGIN];
        memory[start..][..bytes.len()].copy_from_slice(bytes);
        Self { memory, start, len: bytes.len() }
    }

    fn target(&mut self) -> Target<'_> {
        Target::from(&mut self.memory[self.start..][..self.len])
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        let (before, rest) = self.memory.split_at(self.start);
        let (inside, after) = rest.split_at(self.len);
        inside == bytes && before.iter().chain(after).all(|byte| *byte == 0xa5)
    }
}

/// Reduces to a goal and compares every byte that could have been touched.
fn is_right(kernel: &Kernel, inputs: &[Vec<u8>], right: &[u8], goal: Goal, shift: usize) {
    let mut ranks: Vec<Buffer> =
        inputs.iter().zip(shift..).map(|(bytes, at)| Buffer::new(bytes, at * 5 % 37)).collect();
    let blank = vec![0xee; right.len()];
    let mut apart = [Buffer::new(&blank, shift * 3 % 34), Buffer::new(&blank, shift * 7 % 35)];
    {
        let [one, two] = apart.each_mut().map(Buffer::target);
        let ranks: Vec<Target<'_>> = ranks.iter_mut().map(Buffer::target).collect();
        let targets = match goal {
            Goal::Apart => vec![one],
            Goal::TwoApart => vec![one, two],
            Goal::InPlace(rank) => vec![ranks[rank]],
            Goal::InPlaceAndApart(rank) => vec![two, ranks[rank]],
            Goal::EverywhereInPlace => ranks.clone(),
        };
        let sources: Vec<Source<'_>> = ranks.iter().map(|rank| (*rank).into()).collect();
        kernel.reduce(&targets, &sources);
    }
    let (to_one, to_two, to_ranks) = match goal {
        Goal::Apart => (true, false, 0..0),
        Goal::TwoApart => (true, true, 0..0),
        Goal::InPlace(rank) => (false, false, rank..rank + 1),
        Goal::InPlaceAndApart(rank) => (false, true, rank..rank + 1),
        Goal::EverywhereInPlace => (false, false, 0..inputs.len()),
    };
    let wish = |touched| if touched { right } else { &blank[..] };
    let what = || format!("{} {} of {} to {goal:?}", kernel.dtype, kernel.op, inputs.len());
    assert!(apart[0].holds(wish(to_one)), "{}", what());
    assert!(apart[1].holds(wish(to_two)), "{}", what());
    for (rank, (buffer, input)) in ranks.iter().zip(inputs).enumerate() {
        let wish = if to_ranks.contains(&rank) { right } else { input };
        assert!(buffer.holds(wish), "{} at rank {rank}", what());
    }
}

/// All operations of some dtypes, in worlds and lengths of all kinds.
fn all_are_right(dtypes: &[Dtype]) {
    let ops = ReduceOp::ALL.into_iter().chain([-0.3, 1e-3].map(ReduceOp::PremulSum));
    for (dtype, op) in dtypes.iter().flat_map(|dtype| ops.clone().map(|op| (*dtype, op))) {
        for (world, count) in WORLDS.into_iter().flat_map(|world| COUNTS.map(|n| (world, n))) {
            let mut values = Values::new((world * 10_000 + count) as u64);
            let inputs: Vec<_> = (0..world).map(|_| values.of(dtype, count)).collect();
            let Ok(kernel) = Kernel::new(dtype, op, world) else { continue };
            let right = expected(dtype, op, &inputs);
            for (shift, goal) in goals(world).enumerate() {
                is_right(&kernel, &inputs, &right, goal, shift + count);
            }
            let plain = Kernel::at_level(Level::Plain, dtype, op, world).unwrap();
            is_right(&plain, &inputs, &right, Goal::Apart, 0);
            is_right(&plain, &inputs, &right, Goal::InPlaceAndApart(world / 2), 1);
            is_right(&plain, &inputs, &right, Goal::EverywhereInPlace, 2);
        }
    }
}

#[test]
fn single_and_double_precision_are_reduced_right() {
    all_are_right(&[Dtype::F32, Dtype::F64]);
}

#[test]
fn small_floats_are_reduced_right() {
    all_are_right(&[Dtype::F16, Dtype::Bf16, Dtype::F8E4m3, Dtype::F8E5m2]);
}

#[test]
fn signed_integers_are_reduced_right() {
    all_are_right(&[Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64]);
}

#[test]
fn unsigned_integers_are_reduced_right() {
    all_are_right(&[Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64]);
}

#[test]
fn truths_and_complex_numbers_are_reduced_right() {
    all_are_right(&[Dtype::Bool, Dtype::C64, Dtype::C128]);
}

/// Every pair of codes of 8 bits, and every code of 16 bits with some other, at both levels.
fn all_codes_are_right(dtypes: [Dtype; 2]) {
    let ops = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max];
    let factors = [1.0, 0.37, 240.0].map(ReduceOp::PremulSum);
    for op in ops.into_iter().chain(factors) {
        for dtype in dtypes {
            let inputs = values::pairs(dtype);
            let right = expected(dtype, op, &inputs);
            for level in levels() {
                let kernel = Kernel::at_level(level, dtype, op, 2).unwrap();
                is_right(&kernel, &inputs, &right, Goal::Apart, 0);
            }
        }
    }
}

#[test]
fn all_codes_of_eight_bits_are_reduced_right() {
    all_codes_are_right([Dtype::F8E4m3, Dtype::F8E5m2]);
}

#[test]
fn all_codes_of_sixteen_bits_are_reduced_right() {
    all_codes_are_right([Dtype::F16, Dtype::Bf16]);
}

#[test]
fn each_dtype_has_the_operations_that_mean_something() {
    let of = |dtype| names(dtype).join(" ");
    for dtype in Dtype::ALL {
        let right = match dtype {
            Dtype::F32 | Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4m3 | Dtype::F8E5m2 => {
                "sum avg product min max premul_sum"
            }
            Dtype::Bool => "sum product min max bit_and bit_or bit_xor",
            Dtype::C64 | Dtype::C128 => "sum avg product premul_sum",
            _ => "sum avg product min max bit_and bit_or bit_xor",
        };
        assert_eq!(of(dtype), right, "{dtype}");
    }
}

#[test]
fn what_a_dtype_does_not_have_is_answered_with_what_it_has() {
    let error = Kernel::new(Dtype::C64, ReduceOp::Max, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "c64 has no max: it can be reduced with sum, avg, product, premul_sum"
    );
}

#[test]
#[should_panic(expected = "only truths are written to truths")]
fn numbers_are_not_written_to_truths() {
    use crate::dtype::Element;
    let mut truths = [false; 4];
    let kernel = Kernel::new(Dtype::U8, ReduceOp::Sum, 1).unwrap();
    kernel.reduce(&[bool::target(&mut truths)], &[(&[7_u8; 4][..]).into()]);
}

#[test]
#[should_panic(expected = "as long as sources")]
fn a_target_of_another_length_is_refused() {
    let kernel = Kernel::new(Dtype::U8, ReduceOp::Sum, 1).unwrap();
    kernel.reduce(&[(&mut [0_u8; 5][..]).into()], &[(&[7_u8; 4][..]).into()]);
}

#[test]
#[should_panic(expected = "a source of every rank")]
fn a_missing_source_is_refused() {
    let kernel = Kernel::new(Dtype::U8, ReduceOp::Sum, 2).unwrap();
    kernel.reduce(&[(&mut [0_u8; 4][..]).into()], &[(&[7_u8; 4][..]).into()]);
}

#[test]
#[should_panic(expected = "whole numbers of elements")]
fn half_an_element_is_refused() {
    let kernel = Kernel::new(Dtype::F16, ReduceOp::Sum, 1).unwrap();
    kernel.reduce(&[(&mut [0_u8; 3][..]).into()], &[(&[7_u8; 3][..]).into()]);
}

const WORLDS: [usize; 5] = [1, 2, 3, 5, 8];

/// None, one, fewer than a register, whole registers, and more than a block with a rest.
const COUNTS: [usize; 6] = [0, 1, 7, 64, 301, 1013];

const MARGIN: usize = 40;
