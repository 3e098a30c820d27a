//! Gradients that travel as bytes.

use consort::{Dtype, Group};
use consort_testkit::{Case, conformance};
use consort_train::{Caps, Cast, Int8, Options, Parameter, Reducer};

use super::{distance, gradient, parameters, pass, wave};
use crate::model::meet;

conformance! { [shm tcp mixed in_process]
    no_number_is_off_by_more_than_was_said
    what_was_rounded_off_arrives_later
}
conformance! { [shm in_process]
    a_number_that_is_not_finite_spoils_its_block_and_nothing_after_it
    fewer_bits_can_become_bytes_too
    it_tells_how_many_bytes_it_saves
}

fn reducer(group: &Group, shapes: &[&[usize]], hook: Int8) -> Reducer {
    let options = Options::new().hook(hook).caps(Caps::list([500, 4000]).unwrap());
    Reducer::new(group, parameters(shapes), options).unwrap()
}

/// Where blocks of 256 begin and end in a gradient of this length.
fn blocks(len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..len).step_by(256).map(move |start| start..len.min(start + 256))
}

fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |largest, number| largest.max(number.abs()))
}

fn no_number_is_off_by_more_than_was_said(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let two = world.new_group(&[0, 1]).unwrap();
        for group in [Some(world), two].iter().flatten() {
            // Blocks of very different sizes, beside each other and in different gradients.
            let number = |rank: usize, turn: usize, index: usize, at: usize| {
                let size = 10_f64.powi((at / 256 + index * 2) as i32 % 7 - 3);
                f64::from((size * wave(rank, turn, index, at)) as f32)
            };
            let shapes: [&[usize]; 6] = [&[1000], &[256], &[2, 256], &[3], &[0], &[31, 17]];
            let reducer = reducer(group, &shapes, Int8::new());
            for turn in 0..3 {
                let me = group.rank().index();
                let found = pass(&reducer, |index, len| {
                    (0..len).map(|at| number(me, turn, index, at) as f32).collect()
                });
                for (index, found) in found.iter().enumerate() {
                    for block in blocks(found.len()) {
                        let world = group.world();
                        let of = |rank| block.clone().map(move |at| number(rank, turn, index, at));
                        let largest_of_each: f64 = (0..world).map(|rank| largest(of(rank))).sum();
                        let first = largest_of_each / world as f64 / 254.0;
                        let exact: Vec<f64> = block
                            .clone()
                            .map(|at| {
                                (0..world).map(|rank| number(rank, turn, index, at)).sum::<f64>()
                            })
                            .map(|sum| sum / world as f64)
                            .collect();
                        let second = (largest(exact.iter().copied()) + first) / 254.0;
                        let bound = (first + second) * 1.0001;
                        for (at, exact) in block.clone().zip(exact) {
                            let off = (f64::from(found[at]) - exact).abs();
                            assert!(off <= bound, "layer {index}, {at}: {off} above {bound}");
                        }
                    }
                }
            }
        }
    });
}

/// Numbers beside one that is much larger are nothing in every pass, unless they are added up.
fn what_was_rounded_off_arrives_later(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let number = |rank: usize, at: usize| match at % 256 {
            0 => 100.0,
            _ => 0.1 * wave(rank, 0, 0, at),
        };
        for (hook, arrives) in [(Int8::new().error_feedback(true), true), (Int8::new(), false)] {
            // Several buckets, which are made anew after the first pass.
            let reducer = reducer(&group, &[&[700], &[300], &[900]], hook);
            let mut sums = [vec![0.0_f32; 700], vec![0.0; 300], vec![0.0; 900]];
            for turn in 0..100 {
                let order = if turn == 0 { [1, 2, 0] } else { [2, 1, 0] };
                let me = group.rank().index();
                let found = super::pass_in_order(&reducer, order.into_iter(), |_, len| {
                    (0..len).map(|at| number(me, at) as f32).collect()
                });
                for (sum, found) in sums.iter_mut().zip(found) {
                    sum.iter_mut().zip(found).for_each(|(sum, one)| *sum += one);
                }
            }
            for sum in sums {
                let small = (0..sum.len()).filter(|at| at % 256 != 0);
                let (found, exact): (Vec<f32>, Vec<f64>) = small
                    .map(|at| {
                        let exact = (0..3).map(|rank| number(rank, at)).sum::<f64>();
                        (sum[at], exact / 3.0 * 100.0)
                    })
                    .unzip();
                let far = distance(&found, &exact);
                assert_eq!(far < 0.2, arrives, "{far}");
            }
        }
    });
}

fn a_number_that_is_not_finite_spoils_its_block_and_nothing_after_it(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for hook in [Int8::new(), Int8::new().error_feedback(true)] {
                let reducer = reducer(&group, &[&[800], &[20]], hook);
                for at in 0..4 {
                    let found = pass(&reducer, |index, len| {
                        let mut mine = gradient(ctx.rank() as usize, at, index, len);
                        if (ctx.rank(), at, index) == (2, 1, 0) {
                            mine[300] = odd;
                        }
                        mine
                    });
                    for (place, number) in found[0].iter().enumerate() {
                        let is_spoilt = at == 1 && (256..512).contains(&place);
                        assert_eq!(number.is_nan(), is_spoilt, "{odd}, pass {at}, {place}");
                        assert!(is_spoilt || number.is_finite());
                    }
                    assert!(found[1].iter().all(|number| number.is_finite()));
                }
            }
        }
    });
}

fn fewer_bits_can_become_bytes_too(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let options = Options::new().hook(Cast::bf16().with(Int8::new()));
        let cast = Reducer::new(&group, parameters(&[&[600]]), options).unwrap();
        let wide = vec![Parameter::new("w", Dtype::F64, &[600])];
        let wide = Reducer::new(&group, wide, Options::new().hook(Int8::new())).unwrap();
        let exact = super::average(2, 0, 0, 600);
        let found = pass(&cast, |index, len| gradient(ctx.rank() as usize, 0, index, len));
        let far = distance(&found[0], &exact);
        assert!(far < 0.02, "{far}");
        let pass = wide.begin().unwrap();
        let mine: Vec<f64> = (0..600).map(|at| wave(ctx.rank() as usize, 0, 0, at)).collect();
        pass.ready(0, &mine).unwrap();
        let averages = pass.finish().unwrap();
        let found = averages.gradient::<f64>(0).unwrap().unwrap();
        let found: Vec<f32> = found.iter().map(|number| *number as f32).collect();
        let far = distance(&found, &exact);
        assert!(far < 0.01, "{far}");
    });
}

fn it_tells_how_many_bytes_it_saves(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let hook = Int8::new();
        let stats = hook.stats();
        let options = Options::new().hook(hook);
        let reducer = Reducer::new(&group, parameters(&[&[512], &[16]]), options).unwrap();
        pass(&reducer, |index, len| gradient(ctx.rank() as usize, 0, index, len));
        // Three scales: what is a whole number of blocks has no other.
        assert_eq!((stats.before(), stats.after()), (528 * 4, 528 + 3 * 4));
    });
}
