//! What comes out, in every way that gradients can come.

use consort::{Complex32, Complex64, Dtype, bf16, f16};
use consort_testkit::{Case, conformance};
use consort_train::{Average, Caps, Cast, Options, Parameter, Reducer};

use super::model::{average, check, give, gradient, meet, reducer, step};

conformance! { [shm tcp mixed in_process]
    gradients_are_averaged_whatever_the_order_in_which_they_come
    what_local_passes_leave_is_averaged_with_the_next
    a_parameter_that_some_ranks_use_gets_zeroes_from_the_others
    what_nobody_uses_is_left_alone
    parts_of_a_gradient_are_added_up_in_a_static_graph
    averages_are_the_same_bits_on_all_ranks_and_for_all_sizes_of_buckets
}
conformance! { [shm in_process]
    gradients_travel_with_fewer_bits_if_asked
    gradients_are_added_up_with_more_bits_if_asked
    each_average_is_given_once_while_others_are_on_their_way
    layouts_of_gradients_are_kept
    gradients_of_every_dtype_that_can_be_averaged_are
}

fn gradients_are_averaged_whatever_the_order_in_which_they_come(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        let before = reducer.buckets();
        for turn in 0..5 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            let by = turn * 3 + ctx.rank() as usize * 5;
            give(&group, &reducer, &pass, (0..20).map(|at| (at * 7 + by) % 20));
            check(&group, &reducer, number, &pass.finish().unwrap());
        }
        let after = reducer.buckets();
        assert!(before.len() > 3 && before != after, "{before:?} {after:?}");
        after
    });
    assert!(all.iter().all(|buckets| *buckets == all[0]));
    // The first bucket has what came first on rank 0.
    assert_eq!(all[0][0][0], 0);
}

fn what_local_passes_leave_is_averaged_with_the_next(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..2 {
            let mut numbers = Vec::new();
            for _ in 0..2 {
                let pass = reducer.begin_local().unwrap();
                numbers.push(pass.number());
                // Not all of them every time.
                give(&group, &reducer, &pass, (0..20).filter(|at| at % 3 != 0));
                assert!(!pass.finish().unwrap().is_used(1));
            }
            let pass = reducer.begin().unwrap();
            let last = pass.number();
            give(&group, &reducer, &pass, (0..20).filter(|at| at % 4 != 1));
            let averages = pass.finish().unwrap();
            for (index, parameter) in reducer.parameters().iter().enumerate() {
                let mut expected = vec![0.0; parameter.len()];
                let local = numbers.iter().filter(|_| !index.is_multiple_of(3));
                for pass in local.chain((index % 4 != 1).then_some(&last)) {
                    let one = average(&group, 0..2, *pass, index, parameter.len());
                    expected.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
                }
                let is_used = index % 3 != 0 || index % 4 != 1;
                let found = averages.gradient::<f32>(index).unwrap();
                assert_eq!(found, is_used.then_some(&expected[..]), "{index}");
            }
        }
        step(&group, &reducer);
    });
}

fn a_parameter_that_some_ranks_use_gets_zeroes_from_the_others(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        // Rank r has no gradient for every third parameter, beginning with its own.
        let has = |rank: usize, index: usize, pass: u64| {
            !(index + rank + pass as usize).is_multiple_of(3)
        };
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            let mine = (0..20).filter(|&at| has(ctx.rank() as usize, at, number));
            give(&group, &reducer, &pass, mine);
            let averages = pass.finish().unwrap();
            for (index, parameter) in reducer.parameters().iter().enumerate() {
                let users = (0..3).filter(|&rank| has(rank, index, number));
                let expected = average(&group, users, number, index, parameter.len());
                assert_eq!(averages.gradient::<f32>(index).unwrap(), Some(&expected[..]));
            }
        }
    });
}

fn what_nobody_uses_is_left_alone(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..3 {
            let pass = reducer.begin().unwrap();
            give(&group, &reducer, &pass, (0..20).filter(|&at| at != 4 && at != 17));
            let averages = pass.finish().unwrap();
            for index in 0..20 {
                let is_there = averages.gradient::<f32>(index).unwrap().is_some();
                assert_eq!(is_there, index != 4 && index != 17);
                assert_eq!(averages.is_used(index), is_there);
            }
        }
        step(&group, &reducer);
    });
}

fn parts_of_a_gradient_are_added_up_in_a_static_graph(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new().static_graph());
        let before = reducer.buckets();
        for turn in 0..4 {
            // The order is known after the second pass: in the first one gradients are counted.
            assert_eq!(reducer.stats().is_rebuilt, turn > 2, "{turn}");
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            // Parameter 3 never comes, even ones come twice, from several threads.
            std::thread::scope(|scope| {
                for part in 0..2 {
                    let (group, reducer, pass) = (&group, &reducer, &pass);
                    let comes = move |at: &usize| *at != 3 && (part == 0 || at.is_multiple_of(2));
                    scope.spawn(move || give(group, reducer, pass, (0..20).rev().filter(comes)));
                }
            });
            let averages = pass.finish().unwrap();
            for (index, parameter) in reducer.parameters().iter().enumerate() {
                let mut expected = average(&group, 0..2, number, index, parameter.len());
                if index % 2 == 0 {
                    expected.iter_mut().for_each(|one| *one *= 2.0);
                }
                let found = averages.gradient::<f32>(index).unwrap();
                assert_eq!(found, (index != 3).then_some(&expected[..]), "{index}");
            }
        }
        assert_ne!(reducer.buckets(), before);
    });
}

fn averages_are_the_same_bits_on_all_ranks_and_for_all_sizes_of_buckets(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let sizes = [1, 100, 5000, usize::MAX];
        let each = sizes.map(|size| {
            let parameters = super::model::parameters(15);
            let options = Options::new().caps(Caps::of(size).unwrap());
            let reducer = Reducer::new(&group, parameters, options).unwrap();
            let pass = reducer.begin().unwrap();
            for (index, parameter) in reducer.parameters().iter().enumerate().rev() {
                // Thirds, whose sums are rounded.
                let third = |at: usize| ((at + index) as f32 + ctx.rank() as f32 * 0.7) / 3.0;
                let mine: Vec<f32> = (0..parameter.len()).map(third).collect();
                pass.ready(index, &mine).unwrap();
            }
            let averages = pass.finish().unwrap();
            let of = |index| averages.gradient::<f32>(index).unwrap().unwrap().to_vec();
            let bits = (0..15).flat_map(of).map(f32::to_bits);
            bits.collect::<Vec<u32>>()
        });
        assert!(each.iter().all(|bits| *bits == each[0]));
        each[0].clone()
    });
    assert!(all.iter().all(|bits| *bits == all[0]));
}

fn gradients_travel_with_fewer_bits_if_asked(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for hook in [Cast::bf16(), Cast::f16(), Cast::bf16().with(Average)] {
            let reducer = reducer(&group, Options::new().hook(hook));
            for _ in 0..3 {
                // Whole numbers up to 500 have 9 bits at most: of the even ones 8 are left.
                let pass = reducer.begin().unwrap();
                let number = pass.number();
                give(&group, &reducer, &pass, (0..20).rev());
                let averages = pass.finish().unwrap();
                for (index, parameter) in reducer.parameters().iter().enumerate() {
                    let exact = average(&group, 0..2, number, index, parameter.len());
                    let found = averages.gradient::<f32>(index).unwrap().unwrap();
                    let is_near =
                        |(one, other): (&f32, &f32)| (one - other).abs() <= one.abs() / 128.0;
                    assert!(exact.iter().zip(found).all(is_near), "{exact:?} {found:?}");
                }
            }
        }
    });
}

fn gradients_are_added_up_with_more_bits_if_asked(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let parameters = vec![Parameter::new("small", Dtype::Bf16, &[3])];
        let options = Options::new().reduce_as(Dtype::F32);
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        for _ in 0..256 {
            let pass = reducer.begin_local().unwrap();
            pass.ready(0, &[bf16::from_f32(1.0); 3]).unwrap();
            pass.finish().unwrap();
        }
        let pass = reducer.begin().unwrap();
        pass.ready(0, &[bf16::from_f32(1.0 + ctx.rank() as f32 * 2.0); 3]).unwrap();
        let averages = pass.finish().unwrap();
        // As bf16 it would have stayed at 256.
        assert_eq!(averages.gradient::<f32>(0).unwrap(), Some(&[258.0; 3][..]));
        assert!(averages.gradient::<bf16>(0).is_err());
        let mut own = [bf16::from_f32(0.0); 3];
        assert!(averages.copy_to(0, bytemuck::cast_slice_mut(&mut own)).unwrap());
        assert_eq!(own, [bf16::from_f32(258.0); 3]);
    });
}

fn each_average_is_given_once_while_others_are_on_their_way(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = reducer(&group, Options::new());
        for _ in 0..2 {
            let pass = reducer.begin().unwrap();
            let number = pass.number();
            // One has only this rank, and one only the other.
            let other = 5 + ctx.rank() as usize;
            give(&group, &reducer, &pass, (0..20).filter(|&at| at != other));
            let mut given = vec![0; 20];
            let averages = pass.finish_with(|index, bytes| {
                given[index] += 1;
                assert_eq!(bytes.len(), super::model::parameters(20)[index].bytes());
                Ok(())
            });
            assert_eq!(given, [1; 20]);
            let (at, len) = (other, reducer.parameters()[other].len());
            let expected =
                average(&group, std::iter::once(1 - ctx.rank() as usize), number, at, len);
            assert_eq!(averages.unwrap().gradient::<f32>(at).unwrap(), Some(&expected[..]));
        }
    });
}

fn layouts_of_gradients_are_kept(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let by_columns = Parameter::new("w", Dtype::F32, &[3, 4]).with_strides(&[1, 3]).unwrap();
        let reducer = Reducer::new(&group, vec![by_columns], Options::new()).unwrap();
        let pass = reducer.begin().unwrap();
        pass.ready(0, &gradient(&group, ctx.rank() as usize, 1, 0, 12)).unwrap();
        let averages = pass.finish().unwrap();
        let expected = average(&group, 0..2, 1, 0, 12);
        assert_eq!(averages.gradient::<f32>(0).unwrap(), Some(&expected[..]));
    });
}

fn gradients_of_every_dtype_that_can_be_averaged_are(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let dtypes = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16, Dtype::C64, Dtype::C128];
        let parameter = |dtype: Dtype| Parameter::new(dtype.name(), dtype, &[3, 5]);
        let parameters = dtypes.iter().map(|&dtype| parameter(dtype)).collect();
        let reducer = Reducer::new(&group, parameters, Options::new()).unwrap();
        assert_eq!(reducer.buckets().len(), dtypes.len());
        // Small whole numbers, which all dtypes have; 2 more on the second rank.
        let number = |at: usize, rank: u32| at as f32 * 4.0 + rank as f32 * 2.0;
        for _ in 0..2 {
            let pass = reducer.begin().unwrap();
            let mine: Vec<f32> = (0..30).map(|at| number(at, ctx.rank())).collect();
            let wide: Vec<f64> = mine.iter().map(|&number| number.into()).collect();
            let pairs = |at: usize| Complex32::new(mine[2 * at], mine[2 * at + 1]);
            let wide_pairs = |at: usize| Complex64::new(wide[2 * at], wide[2 * at + 1]);
            pass.ready(0, &mine[..15]).unwrap();
            pass.ready(1, &wide[..15]).unwrap();
            pass.ready(2, &mine[..15].iter().map(|&it| f16::from_f32(it)).collect::<Vec<_>>())
                .unwrap();
            pass.ready(3, &mine[..15].iter().map(|&it| bf16::from_f32(it)).collect::<Vec<_>>())
                .unwrap();
            pass.ready(4, &(0..15).map(pairs).collect::<Vec<_>>()).unwrap();
            pass.ready(5, &(0..15).map(wide_pairs).collect::<Vec<_>>()).unwrap();
            let averages = pass.finish().unwrap();
            let expected = |at: usize| number(at, 0) + 1.0;
            let all = |found: Vec<f32>| {
                assert!(found.iter().enumerate().all(|(at, it)| *it == expected(at)), "{found:?}");
            };
            all(averages.gradient::<f32>(0).unwrap().unwrap().to_vec());
            all(averages
                .gradient::<f64>(1)
                .unwrap()
                .unwrap()
                .iter()
                .map(|it| *it as f32)
                .collect());
            all(averages
                .gradient::<f16>(2)
                .unwrap()
                .unwrap()
                .iter()
                .map(|it| it.to_f32())
                .collect());
            all(averages
                .gradient::<bf16>(3)
                .unwrap()
                .unwrap()
                .iter()
                .map(|it| it.to_f32())
                .collect());
            let pairs = averages.gradient::<Complex32>(4).unwrap().unwrap();
            all(pairs.iter().flat_map(|it| [it.re, it.im]).collect());
            let pairs = averages.gradient::<Complex64>(5).unwrap().unwrap();
            all(pairs.iter().flat_map(|it| [it.re as f32, it.im as f32]).collect());
        }
    });
}
