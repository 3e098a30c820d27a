//! Parts of really different sizes, of which some are nothing: what becomes of them, and what is refused.

use std::ops::Range;

use consort::device::Memory;
use consort::{Call, Dtype, Error, Group, Inputs, Outputs, ReduceOp, Source, Target};
use consort_testkit::Context;

use crate::numbers::{coded, combined, encode, number};
use crate::stage::{device, download, in_worlds, meet, upload, with_devices};
use crate::sums::next;

in_worlds! {
    parts_of_all_sizes_are_combined_for_their_ranks
    parts_of_all_sizes_are_exchanged
}

fn parts_of_all_sizes_are_combined_for_their_ranks(ctx: &Context) {
    let group = meet(ctx);
    let (device, me, world) = (device(&group), group.rank().get(), group.world() as u32);
    let lens = &SIZES[..group.world()];
    let begins: usize = lens[..me as usize].iter().sum();
    for (dtype, op) in [
        (Dtype::I8, ReduceOp::Sum),
        (Dtype::F8E4m3, ReduceOp::Product),
        (Dtype::F8E5m2, ReduceOp::PremulSum(0.5)),
        (Dtype::Bf16, ReduceOp::Avg),
        (Dtype::F64, ReduceOp::PremulSum(0.25)),
        (Dtype::U64, ReduceOp::Max),
    ] {
        let all = (0..lens.iter().sum()).map(|at| number(me, at));
        let mine = upload(&device, &encode(dtype, all));
        let mut room = device.allocate(lens[me as usize] * dtype.size()).unwrap();
        let parts = cut(mine.source(), lens.iter().map(|len| len * dtype.size()));
        let inputs = Inputs::List(&parts);
        let output = room.target();
        group.call(&Call::ReduceScatter { dtype, op, inputs, output }).unwrap();
        let wanted = (begins..begins + lens[me as usize]).map(|at| combined(world, at, op));
        let is_right = download::<u8>(&room) == encode(dtype, wanted);
        assert!(is_right, "{op} of {dtype} at rank {me} of {world}");
    }
}

fn parts_of_all_sizes_are_exchanged(ctx: &Context) {
    let group = meet(ctx);
    let (device, me, world) = (device(&group), group.rank().index(), group.world());
    // What each rank has for each other one is told by its bytes.
    let part = |from: usize, to: usize, dtype: Dtype| {
        coded((from * world + to) as u32, SIZES[(from + 2 * to) % SIZES.len()] * dtype.size())
    };
    for dtype in Dtype::ALL {
        let mine: Vec<Vec<u8>> = (0..world).map(|to| part(me, to, dtype)).collect();
        let wanted: Vec<Vec<u8>> = (0..world).map(|from| part(from, me, dtype)).collect();
        let given = upload(&device, &mine.concat());
        let mut taken = device.allocate(wanted.concat().len()).unwrap();
        let sources = cut(given.source(), mine.iter().map(Vec::len));
        let targets = cut_target(taken.target(), wanted.iter().map(Vec::len));
        let (inputs, outputs) = (Inputs::List(&sources), Outputs::List(&targets));
        group.call(&Call::AllToAll { dtype, uneven: true, inputs, outputs }).unwrap();
        assert!(download::<u8>(&taken) == wanted.concat(), "{dtype} at rank {me} of {world}");
    }
}

#[test]
fn parts_that_do_not_fit_are_refused_and_the_group_goes_on() {
    let ran = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        let (all, mut memory) =
            (upload(&device(&group), &[7_u8; 12]), upload(&device(&group), &[1_u8; 12]));
        let (dtype, op) = (Dtype::F32, ReduceOp::Sum);
        let refuse = |call: Call<'_>, reason: &str| {
            let error = group.call(&call).unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            assert!(error.to_string().contains(reason), "{reason:?} in {error}");
        };
        let parts = cut(all.source(), [8, 4]);
        let inputs = Inputs::List(&parts);
        let output = memory.target().slice(0..[4, 8][me]);
        let reason = ["output has 1 f32", "output has 2 f32"][me];
        refuse(Call::ReduceScatter { dtype, op, inputs, output }, reason);
        let inputs = Inputs::List(&parts[..1]);
        refuse(Call::ReduceScatter { dtype, op, inputs, output }, "there are 1 inputs for 2 ranks");
        let parts = cut(all.source(), [6, 6]);
        let inputs = Inputs::List(&parts);
        refuse(
            Call::ReduceScatter { dtype, op, inputs, output },
            "6 bytes, which are not a whole number of f32",
        );

        let (from, into) = (cut(all.source(), [8, 4]), cut_target(memory.target(), [8, 4]));
        let (inputs, outputs) = (Inputs::List(&from), Outputs::List(&into));
        refuse(
            Call::AllToAll { dtype, uneven: false, inputs, outputs },
            "parts that differ in size need the uneven form",
        );
        let inside: Vec<Source<'_>> = into.iter().map(|&part| part.into()).collect();
        let inputs = Inputs::List(&inside);
        refuse(
            Call::AllToAll { dtype, uneven: true, inputs, outputs },
            "NCCL does not do it in place: give another output",
        );
        assert_eq!(download::<u8>(&memory), [1; 12]);
        assert_eq!(next(&group, &[1.5; 8]).unwrap(), [3.0; 8]);
    });
    ran.expect_all();
}

#[test]
fn ranks_that_share_out_a_sum_in_other_ways_hear_of_it_before_anything_moves() {
    let ran = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        let lens = if me == 1 { [8, 4, 12] } else { [8, 8, 8] };
        let all = upload(&device(&group), &[1.0_f32; 6]);
        let mut memory = upload(&device(&group), &vec![9_u8; lens[me]]);
        let error = share_out(&group, &all, &lens, &mut memory).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let text = error.to_string();
        for said in [
            "made reduce_scatter(sum) of 2 f32 on devices",
            "rank 1 made reduce_scatter(sum) of f32 in parts of sizes",
        ] {
            assert!(text.contains(said), "{said:?} in {text:?}");
        }
        assert_eq!(download::<u8>(&memory), vec![9; lens[me]]);
    });
    ran.expect_all();
}

fn share_out(
    group: &Group,
    all: &Memory,
    lens: &[usize],
    memory: &mut Memory,
) -> Result<(), Error> {
    let parts = cut(all.source(), lens.iter().copied());
    let (dtype, op, inputs) = (Dtype::F32, ReduceOp::Sum, Inputs::List(&parts));
    group.call(&Call::ReduceScatter { dtype, op, inputs, output: memory.target() })
}

/// Pieces of so many bytes, one behind the other.
fn cut<'a>(all: Source<'a>, lens: impl IntoIterator<Item = usize>) -> Vec<Source<'a>> {
    ranges(lens).map(|range| all.slice(range)).collect()
}

/// The same of what is written.
fn cut_target<'a>(all: Target<'a>, lens: impl IntoIterator<Item = usize>) -> Vec<Target<'a>> {
    ranges(lens).map(|range| all.slice(range)).collect()
}

fn ranges(lens: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Range<usize>> {
    lens.into_iter().scan(0, |end, len| {
        *end += len;
        Some(*end - len..*end)
    })
}

/// Of how many elements parts are.
const SIZES: [usize; 4] = [5, 0, 1021, 70_001];
