//! Collectives on windows.

use consort::symm::Symmetric;
use consort::{Error, Group, ReduceOp};
use consort_testkit::ranks;

use super::{coded, meet};

#[test]
fn two_ranks_work_on_their_windows() {
    ranks(2, |ctx| work_together(&meet(ctx)));
}

#[test]
fn three_ranks_work_on_their_windows() {
    ranks(3, |ctx| work_together(&meet(ctx)));
}

#[test]
fn five_ranks_work_on_their_windows() {
    ranks(5, |ctx| work_together(&meet(ctx)));
}

#[test]
fn eight_ranks_work_on_their_windows() {
    ranks(8, |ctx| work_together(&meet(ctx)));
}

fn work_together(group: &Group) {
    for part in [0, 1, 17, 1_024, 20_011] {
        let memory = group.symmetric::<f32>(part * group.world()).unwrap();
        reductions(group, &memory);
        let memory = group.symmetric::<u64>(part * group.world()).unwrap();
        exchanges(&memory, part);
    }
}

/// Numbers whose sum depends on the order in which they are added.
fn number(rank: usize, at: usize) -> f32 {
    let mantissa = (at * 7919 + rank * 104_729) % 1_000;
    (mantissa as f32 - 450.0) * 10_f32.powi((at % 5) as i32 - 2) / 3.0
}

fn sum(world: usize, at: usize) -> f32 {
    (1..world).fold(number(0, at), |sum, rank| sum + number(rank, at))
}

fn reductions(group: &Group, memory: &Symmetric<f32>) {
    let (me, world, len) = (group.rank().index(), group.world(), memory.len());
    let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|it| it.to_bits()).collect() };
    let mine: Vec<f32> = (0..len).map(|at| number(me, at)).collect();
    let sums: Vec<f32> = (0..len).map(|at| sum(world, at)).collect();

    memory.local().unwrap().copy_from_slice(&mine);
    let mut output = vec![0.0; len];
    memory.one_shot_all_reduce(&mut output, ReduceOp::Sum).unwrap();
    assert_eq!(bits(&output), bits(&sums));
    assert_eq!(memory.local().unwrap()[..], mine);

    let mut output = vec![0.0; len / world];
    memory.reduce_scatter(&mut output, ReduceOp::Sum).unwrap();
    assert_eq!(bits(&output), bits(&sums[me * output.len()..(me + 1) * output.len()]));

    memory.two_shot_all_reduce(ReduceOp::Sum).unwrap();
    assert_eq!(bits(&memory.local().unwrap()), bits(&sums));
    // As the group's own call does it, on the same memory and on any other.
    memory.local().unwrap().copy_from_slice(&mine);
    group.all_reduce(&mut memory.local().unwrap(), ReduceOp::Sum).unwrap();
    assert_eq!(bits(&memory.local().unwrap()), bits(&sums));
    let mut elsewhere = mine.clone();
    group.all_reduce(&mut elsewhere, ReduceOp::Sum).unwrap();
    assert_eq!(bits(&elsewhere), bits(&sums));
}

fn exchanges(memory: &Symmetric<u64>, part: usize) {
    let (me, world, len) = (memory.rank().index(), memory.world(), memory.len());
    let fill = || {
        let mut window = memory.local().unwrap();
        window.iter_mut().enumerate().for_each(|(at, element)| *element = coded(me, 0, at));
    };
    fill();
    let mut output = vec![0; len * world];
    memory.all_gather(&mut output).unwrap();
    let whole = |by| (0..len).map(move |at| coded(by, 0, at));
    assert!(output.iter().copied().eq((0..world).flat_map(whole)));

    let mut output = vec![0; len];
    memory.all_to_all(&mut output).unwrap();
    let for_me = |by| (0..part).map(move |at| coded(by, 0, me * part + at));
    assert!(output.iter().copied().eq((0..world).flat_map(for_me)));

    memory.all_gather_in_place().unwrap();
    let own = |by| (0..part).map(move |at| coded(by, 0, by * part + at));
    assert!(memory.local().unwrap().iter().copied().eq((0..world).flat_map(own)));

    fill();
    let root = world / 2;
    memory.broadcast(root as u32).unwrap();
    assert!(memory.local().unwrap().iter().copied().eq(whole(root)));
}

/// A slice of a window is worked on where it is; a rank that gives one and a rank that does not
/// have made different calls, and say so. Even of little data: what worked there would not for more.
#[test]
fn a_slice_of_a_window_is_used_in_place() {
    ranks(2, |ctx| {
        let world = meet(ctx);
        for len in [3, 4_096] {
            let group = world.split(Some(0), 0).unwrap().unwrap();
            let memory = group.symmetric::<f32>(len).unwrap();
            let mut window = memory.local().unwrap();
            assert!(group.is_symmetric(&window));
            let mut elsewhere = vec![0.0_f32; len];
            assert!(!group.is_symmetric(&elsewhere));
            let operand = if ctx.rank() == 0 { &mut window[..] } else { &mut elsewhere[..] };
            let error = group.all_reduce(operand, ReduceOp::Sum).unwrap_err().to_string();
            let outside = format!("all_reduce(sum) of {len} f32");
            let inside = format!("{outside} in symmetric memory, as is its result");
            assert_eq!(error.matches(&outside).count(), 2, "{error}");
            assert_eq!(error.matches(&inside).count(), 1, "{error}");
        }
    });
}

#[test]
fn ranks_of_which_only_some_overwrite_their_window_hear_of_it() {
    let errors = ranks(3, |ctx| {
        let memory = meet(ctx).symmetric::<f32>(1 << 16).unwrap();
        let done = match ctx.rank() {
            1 => memory.one_shot_all_reduce(&mut vec![0.0; 1 << 16], ReduceOp::Sum),
            _ => memory.two_shot_all_reduce(ReduceOp::Sum),
        };
        done.unwrap_err().to_string()
    });
    for error in errors {
        assert!(error.contains("all_reduce(sum) of 65536 f32 in symmetric memory"), "{error}");
        assert!(error.contains("in symmetric memory, as is its result"), "{error}");
    }
}

#[test]
fn ranks_that_make_different_calls_on_a_window_hear_of_it() {
    let errors = ranks(3, |ctx| {
        let memory = meet(ctx).symmetric::<i64>(3 * 8).unwrap();
        let done = match ctx.rank() {
            1 => memory.one_shot_all_reduce(&mut [0; 24], ReduceOp::Sum),
            _ => memory.two_shot_all_reduce(ReduceOp::Max),
        };
        done.unwrap_err().to_string()
    });
    for error in errors {
        assert!(error.contains("all_reduce(sum) of 24 i64 in symmetric memory"), "{error}");
        assert!(error.contains("all_reduce(max) of 24 i64 in symmetric memory"), "{error}");
    }
}

#[test]
fn a_call_that_makes_no_sense_is_refused_and_the_window_is_free_again() {
    ranks(2, |ctx| {
        let memory = meet(ctx).symmetric::<i64>(5).unwrap();
        for refused in [
            memory.reduce_scatter(&mut [0; 2], ReduceOp::Sum),
            memory.all_gather(&mut [0; 9]),
            memory.one_shot_all_reduce(&mut [0; 4], ReduceOp::Sum),
            memory.broadcast(2),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Argument(_)), "{error}");
        }
        memory.local().unwrap()[4] = 1;
        memory.two_shot_all_reduce(ReduceOp::Sum).unwrap();
        assert_eq!(memory.local().unwrap()[..], [0, 0, 0, 0, 2]);
    });
}
