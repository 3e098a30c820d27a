//! Gradients that travel as a few columns.

use consort::{Dtype, Group};
use consort_testkit::{Case, conformance};
use consort_train::{Caps, Cast, Options, Parameter, PowerSgd, Reducer};

use super::{average, bits, distance, gradient, parameters, pass, pass_in_order, turn, wave};
use crate::model::meet;

conformance! { [shm tcp mixed in_process]
    as_many_columns_as_there_are_give_the_average
    what_the_columns_do_not_show_arrives_later
}
conformance! { [shm in_process]
    numbers_of_64_bits_keep_them
    what_is_not_compressed_is_averaged_exactly
    layouts_make_no_difference
    what_is_kept_survives_other_buckets
    a_direction_that_was_empty_is_found_when_something_comes
    a_number_that_is_not_finite_spoils_its_gradient_and_nothing_after_it
    it_tells_how_many_bytes_it_saves
}

fn reducer(group: &Group, shapes: &[&[usize]], hook: PowerSgd) -> Reducer {
    let options = Options::new().hook(hook).caps(Caps::list([500, 3000]).unwrap());
    Reducer::new(group, parameters(shapes), options).unwrap()
}

/// With as many columns as matrices can have.
fn full() -> PowerSgd {
    PowerSgd::of_rank(100).unwrap().min_compression_rate(0.01).unwrap().after(0)
}

fn as_many_columns_as_there_are_give_the_average(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let two = world.new_group(&[0, 1]).unwrap();
        for group in [Some(world), two].iter().flatten() {
            let hooks = [
                full(),
                full().error_feedback(false),
                full().warm_start(false),
                full().batched(),
                full().seed(99),
            ];
            for hook in hooks {
                let name = format!("{hook:?}");
                let shapes: [&[usize]; 4] = [&[9, 14], &[14, 2, 3], &[5], &[0, 3]];
                let reducer = reducer(group, &shapes, hook);
                for at in 0..4 {
                    for (index, found) in turn(group, &reducer, at).iter().enumerate().take(3) {
                        let exact = average(group.world(), at, index, found.len());
                        let far = distance(found, &exact);
                        assert!(far < 1e-5, "{name}, pass {at}, layer {index}: {far}");
                    }
                }
            }
        }
    });
}

fn numbers_of_64_bits_keep_them(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let parameters = vec![Parameter::new("w", Dtype::F64, &[11, 8])];
        let reducer = Reducer::new(&group, parameters, Options::new().hook(full())).unwrap();
        for at in 0..3 {
            let pass = reducer.begin().unwrap();
            let mine: Vec<f64> =
                (0..88).map(|place| wave(ctx.rank() as usize, at, 0, place)).collect();
            pass.ready(0, &mine).unwrap();
            let averages = pass.finish().unwrap();
            let found = averages.gradient::<f64>(0).unwrap().unwrap();
            let exact = average(3, at, 0, 88);
            let worst = found.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-12, "{worst}");
        }
    });
}

/// Adds up what came of so many passes with gradients of their own. Says how far that is from the sum of
/// the averages, after a quarter of them and after all.
fn far_after(group: &Group, reducer: &Reducer, passes: usize) -> [f64; 2] {
    let len = reducer.parameters()[0].len();
    let (mut applied, mut exact) = (vec![0.0_f32; len], vec![0.0; len]);
    let mut far = [0.0; 2];
    // A part that stays, as gradients have, and one that changes.
    let steady = |rank: usize, at| wave(rank, 1000, 0, at);
    for turn in 0..passes {
        let number = |rank, at| 0.5 * steady(rank, at) + 0.2 * wave(rank, turn, 0, at);
        let mine = pass(reducer, |_, len| {
            (0..len).map(|at| number(group.rank().index(), at) as f32).collect()
        });
        applied.iter_mut().zip(&mine[0]).for_each(|(sum, one)| *sum += one);
        let sum = |at| (0..group.world()).map(|rank| number(rank, at)).sum::<f64>();
        exact.iter_mut().enumerate().for_each(|(at, all)| *all += sum(at) / group.world() as f64);
        if (turn + 1) * 4 == passes {
            far[0] = distance(&applied, &exact);
        }
    }
    far[1] = distance(&applied, &exact);
    far
}

fn what_the_columns_do_not_show_arrives_later(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let one = || PowerSgd::new().min_compression_rate(1.0).unwrap().after(0);
        for hook in [one(), one().batched(), one().warm_start(false)] {
            let name = format!("{hook:?}");
            let [soon, late] = far_after(&group, &reducer(&group, &[&[12, 10]], hook), 160);
            assert!(late < 0.1 && late < soon / 2.0, "{name}: {soon} {late}");
        }
        let hook = one().error_feedback(false);
        let [_, late] = far_after(&group, &reducer(&group, &[&[12, 10]], hook), 160);
        assert!(late > 0.3, "{late}");
    });
}

fn what_is_not_compressed_is_averaged_exactly(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let shapes: [&[usize]; 5] = [&[7], &[20, 30], &[4, 4], &[20, 20], &[33]];
        for hook in [PowerSgd::new().after(1), PowerSgd::of_rank(3).unwrap().after(0)] {
            // All in one bucket.
            let options = Options::new().hook(hook);
            let reducer = Reducer::new(&group, parameters(&shapes), options).unwrap();
            let plain = Reducer::new(&group, parameters(&shapes), Options::new()).unwrap();
            for at in 0..4 {
                let (found, exact) = (turn(&group, &reducer, at), turn(&group, &plain, at));
                for index in [0, 2, 4] {
                    assert_eq!(bits(&found[index..=index]), bits(&exact[index..=index]), "{at}");
                }
                assert!(at == 0 || found[1] != exact[1] && found[3] != exact[3], "{at}");
            }
        }
    });
}

fn layouts_make_no_difference(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // The second dimension counts fastest in memory, as in images whose channels come last.
        let (shape, strides) = ([8, 4, 3, 3], [36, 1, 12, 4]);
        let by_rows = Parameter::new("w", Dtype::F32, &shape);
        let other = by_rows.clone().with_strides(&strides).unwrap();
        let place = |at: usize| at / 36 * 36 + at / 9 % 4 + at / 3 % 3 * 12 + at % 3 * 4;
        let hooks: [fn() -> Options; 3] = [
            || Options::new().hook(PowerSgd::of_rank(2).unwrap().after(1)),
            || Options::new().hook(PowerSgd::new().after(0).batched()),
            || Options::new().hook(Cast::bf16().with(PowerSgd::new().after(0))),
        ];
        for hook in hooks {
            let bias = Parameter::new("b", Dtype::F32, &[5]);
            let new = |weight: &Parameter| {
                Reducer::new(&group, vec![weight.clone(), bias.clone()], hook()).unwrap()
            };
            let (one, two) = (new(&by_rows), new(&other));
            for at in 0..4 {
                let mine = |index, len| gradient(ctx.rank() as usize, at, index, len);
                let expected = pass(&one, mine);
                let found = pass(&two, |index, len| {
                    let mine = mine(index, len);
                    if index == 1 {
                        return mine;
                    }
                    let mut memory = vec![0.0; len];
                    mine.iter().enumerate().for_each(|(at, number)| memory[place(at)] = *number);
                    memory
                });
                let ordered: Vec<f32> = (0..288).map(|at| found[0][place(at)]).collect();
                assert_eq!(bits(&[ordered]), bits(&expected[..1]), "pass {at}");
                assert_eq!(bits(&found[1..]), bits(&expected[1..]), "pass {at}");
            }
        }
    });
}

/// Buckets are made anew after the first pass. What was kept in it is used in the second all the same.
fn what_is_kept_survives_other_buckets(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let shapes: [&[usize]; 5] = [&[12, 12], &[20, 9], &[3], &[10, 4, 4], &[16, 16]];
        let new = |caps| {
            let hook = PowerSgd::of_rank(2).unwrap().min_compression_rate(1.0).unwrap().after(0);
            let options = Options::new().hook(hook).caps(Caps::of(caps).unwrap());
            Reducer::new(&group, parameters(&shapes), options).unwrap()
        };
        let (small, large) = (new(700), new(usize::MAX));
        let before = small.buckets();
        for at in 0..5 {
            let mine = |index, len| gradient(ctx.rank() as usize, at, index, len);
            let order = [2, 0, 4, 1, 3];
            let found = pass_in_order(&small, order.into_iter(), mine);
            let expected = pass_in_order(&large, order.into_iter(), mine);
            assert_eq!(bits(&found), bits(&expected), "pass {at}");
        }
        assert!(before.len() > 2 && small.buckets() != before && large.buckets().len() == 1);
    });
}

/// A gradient that is zero for a while gives no directions to go on with.
fn a_direction_that_was_empty_is_found_when_something_comes(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for hook in [PowerSgd::of_rank(2).unwrap().after(0), PowerSgd::new().after(0).batched()] {
            let name = format!("{hook:?}");
            let reducer = reducer(&group, &[&[16, 16]], hook);
            for _ in 0..3 {
                let nothing = pass(&reducer, |_, len| vec![0.0; len]);
                assert!(nothing[0].iter().all(|number| *number == 0.0));
            }
            // Of rank 1, so that one pass shows it.
            let product = |at: usize| (1 + at / 16) as f64 * (2.0 + (at % 16) as f64);
            let exact: Vec<f64> = (0..256).map(product).collect();
            let mine: Vec<f32> = exact.iter().map(|number| *number as f32).collect();
            let found = pass(&reducer, |_, _| mine.clone());
            let far = distance(&found[0], &exact);
            assert!(far < 1e-4, "{name}: {far}");
        }
    });
}

fn a_number_that_is_not_finite_spoils_its_gradient_and_nothing_after_it(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let reducer = reducer(&group, &[&[20, 20], &[20, 25]], PowerSgd::new().after(0));
            for at in 0..6 {
                let found = pass(&reducer, |index, len| {
                    let mut mine = gradient(ctx.rank() as usize, at, index, len);
                    if (ctx.rank(), at, index) == (1, 2, 0) {
                        mine[137] = odd;
                    }
                    mine
                });
                let is_spoilt = found[0].iter().all(|number| number.is_nan());
                let is_well = found[0].iter().all(|number| number.is_finite());
                assert_eq!((is_spoilt, is_well), (at == 2, at != 2), "{odd}, pass {at}");
                assert!(found[1].iter().all(|number| number.is_finite()), "{odd}, pass {at}");
            }
        }
    });
}

fn it_tells_how_many_bytes_it_saves(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let hook = PowerSgd::of_rank(2).unwrap().after(1);
        let stats = hook.stats();
        let options = Options::new().hook(hook);
        let shapes: [&[usize]; 3] = [&[32, 48], &[16], &[40, 40]];
        let reducer = Reducer::new(&group, parameters(&shapes), options).unwrap();
        turn(&group, &reducer, 0);
        assert_eq!((stats.before(), stats.ratio()), (0, None));
        for at in 1..3 {
            turn(&group, &reducer, at);
            // Columns of 32 + 48 and of 40 + 40 numbers, two of each, and 16 numbers as they are.
            let after = ((32 + 48) * 2 + (40 + 40) * 2 + 16) * 4;
            let before = (32 * 48 + 16 + 40 * 40) * 4;
            assert_eq!((stats.before(), stats.after()), (at as u64 * before, at as u64 * after));
        }
    });
}
