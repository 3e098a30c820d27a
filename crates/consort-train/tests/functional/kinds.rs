//! Tensors of every kind and in every order.

use candle_core::{D, DType, Device, Tensor, Var};
use consort::{Group, ReduceOp};
use consort_testkit::{Case, conformance};
use consort_train::candle::functional::{
    Pending, all_gather, all_reduce, all_to_all, all_to_all_uneven, backward, broadcast, permute,
    reduce, reduce_scatter, replicate,
};

use super::meet::{
    await_signal, bits, circle, coded_tensor, coded_var, gradient, meet, numbers, signal, tensor,
};

conformance! { [shm tcp mixed in_process]
    averages_are_scaled_there_and_back
    whole_numbers_move_and_have_no_gradient
    numbers_of_few_bits_move_and_have_gradients
}
conformance! { [shm in_process]
    tensors_in_every_order_are_taken_for_what_they_say
    tensors_without_numbers_go_through_all_calls
    tensors_of_empty_rows_go_through_all_calls
    single_numbers_become_a_row
    the_gradient_of_a_single_number_is_a_single_number
    replicas_of_whole_numbers_are_whole_numbers
    what_goes_in_stays_as_it_is
    a_result_is_waited_for_when_it_is_used
    what_has_no_gradient_brings_none
}

fn averages_are_scaled_there_and_back(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = f64::from(ctx.rank());
        let x = Var::from_tensor(&tensor(&[rank, 3.0 * rank, 6.0], &[3], DType::F32)).unwrap();
        // Losses have weights of 1, 2 and 3.
        let gradient_of = |y: &Tensor| {
            let loss = (y.sum_all().unwrap() * (rank + 1.0)).unwrap();
            numbers(&gradient(&backward(&loss).unwrap(), &x))
        };
        let average = all_reduce(&x, ReduceOp::Avg, &group).unwrap().wait().unwrap();
        assert_eq!(numbers(&average), [1.0, 3.0, 6.0]);
        assert_eq!(gradient_of(&average), [2.0; 3]);
        let mine = reduce_scatter(&x, ReduceOp::Avg, 0, &group).unwrap().wait().unwrap();
        assert_eq!(numbers(&mine), [[1.0, 3.0, 6.0][ctx.rank() as usize]]);
        let thirds = gradient_of(&mine);
        assert!(thirds.iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b / 3.0).abs() < 1e-6));
        let on_root = reduce(&x, ReduceOp::Avg, 2, &group).unwrap().wait().unwrap();
        assert_eq!(numbers(&on_root), if ctx.rank() == 2 { [1.0, 3.0, 6.0] } else { [0.0; 3] });
        assert_eq!(gradient_of(&on_root), [1.0; 3]);
        let doubled = all_reduce(&x, ReduceOp::PremulSum(2.0), &group).unwrap().wait().unwrap();
        assert_eq!(numbers(&doubled), [6.0, 18.0, 36.0]);
        assert_eq!(gradient_of(&doubled), [12.0; 3]);
    });
}

/// What comes of a tensor whose dimensions are multiples of three, among three ranks.
fn what_comes_of(x: &Tensor, group: &Group) -> Vec<Tensor> {
    let count = x.dim(0).unwrap();
    let to = [count - 1, 0, 1];
    let from = match group.rank().get() {
        0 => [count - 1; 3],
        1 => [0; 3],
        _ => [1; 3],
    };
    let mut begun: Vec<Pending> = vec![
        all_reduce(x, ReduceOp::Sum, group).unwrap(),
        reduce(x, ReduceOp::Min, 2, group).unwrap(),
        broadcast(x, 1, group).unwrap(),
        permute(x, &circle(3), group).unwrap(),
        all_to_all(x, group).unwrap(),
        all_to_all_uneven(x, &to, &from, group).unwrap(),
    ];
    for dim in 0..3 {
        begun.push(all_gather(x, dim, group).unwrap());
        begun.push(reduce_scatter(x, ReduceOp::Max, dim, group).unwrap());
    }
    Pending::all(begun).wait().unwrap()
}

/// Views with all the strides that candle makes: what comes of them is the same as of a copy in rows.
fn tensors_in_every_order_are_taken_for_what_they_say(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let places: Vec<f64> = (0..54).map(|at| f64::from(at + 60 * ctx.rank())).collect();
        let shape = (3, 6, 3);
        for dtype in [DType::F32, DType::U8, DType::BF16] {
            let whole = tensor(&places, &[3, 6, 3], dtype);
            let (row, column) = (whole.narrow(0, 2, 1).unwrap(), whole.narrow(2, 1, 1).unwrap());
            let number = row.narrow(1, 4, 1).unwrap().narrow(2, 1, 1).unwrap();
            let views = [
                whole.t().unwrap(),
                whole.transpose(0, 1).unwrap(),
                whole.transpose(0, 2).unwrap(),
                whole.permute((1, 2, 0)).unwrap(),
                whole.narrow(1, 2, 3).unwrap(),
                whole.t().unwrap().narrow(2, 3, 3).unwrap(),
                row.broadcast_as(shape).unwrap(),
                column.broadcast_as(shape).unwrap(),
                number.broadcast_as((3, 3, 3)).unwrap(),
                row.broadcast_as(shape).unwrap().t().unwrap(),
            ];
            for view in views {
                assert!(!view.is_contiguous());
                let in_rows = view.force_contiguous().unwrap();
                let (ours, expected) =
                    (what_comes_of(&view, &group), what_comes_of(&in_rows, &group));
                for (at, (one, other)) in ours.iter().zip(&expected).enumerate() {
                    let what = format!("call {at} of {dtype:?}, {:?}", view.layout());
                    assert_eq!(one.dims(), other.dims(), "{what}");
                    assert_eq!(numbers(one), numbers(other), "{what}");
                    assert!(one.is_contiguous(), "{what}");
                }
            }
        }
    });
}

fn whole_numbers_move_and_have_no_gradient(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let weights = coded_var(rank, 1, &[3], DType::F32);
        for dtype in [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64] {
            let mine: Vec<f64> = (0..3).map(|at| (10 * rank + at) as f64).collect();
            // Also as a variable: candle has such, too.
            let var = Var::from_tensor(&tensor(&mine, &[3], dtype)).unwrap();
            for x in [tensor(&mine, &[3], dtype), var.as_tensor().clone()] {
                let all = all_gather(&x, 0, &group).unwrap().wait().unwrap();
                assert_eq!(all.dtype(), dtype);
                assert_eq!(numbers(&all), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0, 21.0, 22.0]);
                let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
                assert_eq!(numbers(&sum), [30.0, 33.0, 36.0]);
                let largest = all_reduce(&x, ReduceOp::Max, &group).unwrap().wait().unwrap();
                assert_eq!(numbers(&largest), [20.0, 21.0, 22.0]);
                let product = all_reduce(&x, ReduceOp::Product, &group).unwrap();
                assert_eq!(numbers(&product.wait().unwrap())[0], 0.0);
                let mixed = all_to_all(&x, &group).unwrap().wait().unwrap();
                let expected: Vec<f64> = (0..3).map(|from| (10 * from + rank) as f64).collect();
                assert_eq!(numbers(&mixed), expected);
                for y in [all, sum, largest, mixed] {
                    assert!(!y.track_op(), "{dtype:?}");
                }
                // They can choose what is learned, and nothing is called backward but by that.
                let chosen = permute(&x, &circle(3), &group).unwrap().wait().unwrap();
                let index = chosen.to_dtype(DType::U32).unwrap().clamp(0_u32, 2_u32).unwrap();
                let before = group.calls();
                let loss = weights.index_select(&index, 0).unwrap().sqr().unwrap();
                let gradients = backward(&loss.sum_all().unwrap()).unwrap();
                assert!(gradients.get(&var).is_none());
                assert_eq!(gradient(&gradients, &weights).dims(), [3]);
                assert_eq!(group.calls(), before);
            }
        }
    });
}

fn numbers_of_few_bits_move_and_have_gradients(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        for dtype in [DType::F16, DType::BF16] {
            // Small whole numbers and halves, which both have.
            let numbers_of = |rank: usize| [rank as f64, 1.5, -2.0, 0.5];
            let x = Var::from_tensor(&tensor(&numbers_of(rank), &[4], dtype)).unwrap();
            let weights = tensor(&[1.0, 2.0, -3.0, 0.5], &[4], dtype);
            let weights = (weights * (rank + 1) as f64).unwrap();
            let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
            assert_eq!((sum.dtype(), numbers(&sum)), (dtype, vec![6.0, 6.0, -8.0, 2.0]));
            let all = all_gather(&x, 0, &group).unwrap().wait().unwrap();
            let own = all.narrow(0, 4 * ((rank + 1) % 4), 4).unwrap();
            assert_eq!(numbers(&own), numbers_of((rank + 1) % 4));
            let average = reduce_scatter(&x, ReduceOp::Avg, 0, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&average), [[1.5, 1.5, -2.0, 0.5][rank]]);

            let gradient_of =
                |y: Tensor| numbers(&gradient(&backward(&y.sum_all().unwrap()).unwrap(), &x));
            // 1 + 2 + 3 + 4 times the weights.
            assert_eq!(gradient_of((sum * &weights).unwrap()), [10.0, 20.0, -30.0, 5.0]);
            let weight = [4.0, 1.0, 2.0, 3.0][rank];
            assert_eq!(
                gradient_of((own * &weights).unwrap()),
                [1.0, 2.0, -3.0, 0.5].map(|of_one| of_one * weight)
            );
            let scaled = (average * (4 * (rank + 1)) as f64).unwrap();
            assert_eq!(gradient_of(scaled), [1.0, 2.0, 3.0, 4.0]);
        }
    });
}

fn tensors_without_numbers_go_through_all_calls(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = nothing(&[0, 3]);
        let results = [
            (all_reduce(&x, ReduceOp::Avg, &group).unwrap(), [0, 3]),
            (reduce(&x, ReduceOp::Sum, 1, &group).unwrap(), [0, 3]),
            (broadcast(&x, 1, &group).unwrap(), [0, 3]),
            (all_gather(&x, 0, &group).unwrap(), [0, 3]),
            (all_gather(&x, 1, &group).unwrap(), [0, 6]),
            (reduce_scatter(&x, ReduceOp::Sum, 0, &group).unwrap(), [0, 3]),
            (all_to_all(&x, &group).unwrap(), [0, 3]),
            (all_to_all_uneven(&x, &[0, 0], &[0, 0], &group).unwrap(), [0, 3]),
            (permute(&x, &circle(2), &group).unwrap(), [0, 3]),
            (replicate(&x, &group).unwrap().into(), [0, 3]),
        ];
        let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu).unwrap();
        for (y, shape) in results {
            let y = y.wait().unwrap();
            assert_eq!(y.dims(), shape);
            loss = (loss + y.sum_all().unwrap()).unwrap();
        }
        assert_eq!(gradient(&backward(&loss).unwrap(), &x).dims(), [0, 3]);
        group.barrier().unwrap();
    });
}

fn tensors_of_empty_rows_go_through_all_calls(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = nothing(&[4, 0]);
        let results = [
            (all_reduce(&x, ReduceOp::Sum, &group).unwrap(), [4, 0]),
            (all_gather(&x, 0, &group).unwrap(), [8, 0]),
            (all_gather(&x, 1, &group).unwrap(), [4, 0]),
            (reduce_scatter(&x, ReduceOp::Sum, 0, &group).unwrap(), [2, 0]),
            (permute(&x, &circle(2), &group).unwrap(), [4, 0]),
            (replicate(&x, &group).unwrap().into(), [4, 0]),
        ];
        let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu).unwrap();
        for (y, shape) in results {
            let y = y.wait().unwrap();
            assert_eq!(y.dims(), shape);
            loss = (loss + y.sum_all().unwrap()).unwrap();
        }
        assert_eq!(gradient(&backward(&loss).unwrap(), &x).dims(), [4, 0]);
    });
}

fn nothing(shape: &[usize]) -> Var {
    Var::from_tensor(&Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap()).unwrap()
}

fn single_numbers_become_a_row(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let x = tensor(&[f64::from(ctx.rank()) + 0.5], &[], DType::F64);
        for row in [
            all_gather(&x, 0, &group).unwrap().wait().unwrap(),
            all_gather(&x, D::Minus1, &group).unwrap().wait().unwrap(),
        ] {
            assert_eq!(row.to_vec1::<f64>().unwrap(), [0.5, 1.5, 2.5]);
        }
        assert!(all_gather(&x, 1, &group).is_err());
        assert!(reduce_scatter(&x, ReduceOp::Sum, 0, &group).is_err());
        assert!(all_to_all(&x, &group).is_err());
        let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
        assert_eq!(sum.to_scalar::<f64>().unwrap(), 4.5);
        let next = permute(&x, &circle(3), &group).unwrap().wait().unwrap();
        assert_eq!(next.to_scalar::<f64>().unwrap(), [2.5, 0.5, 1.5][ctx.rank() as usize]);
    });
}

fn the_gradient_of_a_single_number_is_a_single_number(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let x = coded_var(rank, 1, &[], DType::F64);
        let weights = |rank: usize| {
            tensor(&[1.0, 10.0, 100.0], &[3], DType::F64).affine((rank + 1) as f64, 0.0).unwrap()
        };
        let expected = [6.0, 60.0, 600.0][rank];
        // The variable itself, and something that was made of it.
        for (of_x, factor) in [(x.as_tensor().clone(), 1.0), ((x.as_tensor() * 2.0).unwrap(), 2.0)]
        {
            let loss = || {
                let row = all_gather(&of_x, 0, &group).unwrap().wait().unwrap();
                (row * weights(rank)).unwrap().sum_all().unwrap()
            };
            let by_candle = loss().backward().map_err(consort_train::Error::from);
            for gradients in [backward(&loss()), by_candle] {
                assert_eq!(numbers(&gradient(&gradients.unwrap(), &x)), [factor * expected]);
            }
        }
    });
}

fn replicas_of_whole_numbers_are_whole_numbers(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = Tensor::new(&[1_u32, 2, 3], &Device::Cpu).unwrap();
        let replica = replicate(&x, &group).unwrap();
        assert_eq!(replica.to_vec1::<u32>().unwrap(), [1, 2, 3]);
    });
}

fn what_goes_in_stays_as_it_is(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[2, 3], DType::F32);
        let before = bits(&x);
        let y = all_reduce(&x, ReduceOp::Sum, &group).unwrap();
        // What was begun has a copy.
        x.set(&x.zeros_like().unwrap()).unwrap();
        let expected = (coded_tensor(0, 1, &[2, 3], DType::F32)
            + coded_tensor(1, 1, &[2, 3], DType::F32))
        .unwrap();
        assert_eq!(bits(y.get().unwrap()), bits(&expected));
        x.set(&coded_tensor(ctx.rank() as usize, 1, &[2, 3], DType::F32)).unwrap();
        let replica = replicate(&x, &group).unwrap();
        let copy = broadcast(&x, 0, &group).unwrap().wait().unwrap();
        backward(&((y.wait().unwrap() * &copy).unwrap() + &replica).unwrap()).unwrap();
        assert_eq!(bits(&x), before);
        // Nobody else has their memory either.
        x.set(&x.zeros_like().unwrap()).unwrap();
        assert_eq!(bits(&replica), before);
        assert_eq!(bits(&copy), bits(&coded_tensor(0, 1, &[2, 3], DType::F32)));
    });
}

fn a_result_is_waited_for_when_it_is_used(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[2, 3], DType::F64);
        let weights = coded_tensor(9, 2, &[6], DType::F64);
        if ctx.rank() == 1 {
            await_signal(&group, "begun", 1);
        }
        let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap();
        let flat: Pending = sum.clone().map(|sum| Ok(sum.flatten_all()?));
        let first: Pending = flat.clone().map(|flat| Ok(flat.narrow(0, 1, 1)?));
        if ctx.rank() == 0 {
            assert!(!(sum.is_done() || flat.is_done() || first.is_done()));
            signal(&group, "begun");
        }
        // All of them are views of the same tensor, in whatever order they are used.
        let loss = (first.wait().unwrap() * 10.0).unwrap().sum_all().unwrap();
        let weighted = (flat.wait().unwrap() * &weights).unwrap().sum_all().unwrap();
        let loss = (loss + weighted).unwrap();
        let loss = (loss + sum.wait().unwrap().sum_all().unwrap()).unwrap();
        let gradients = backward(&loss).unwrap();
        let expected: Vec<f64> = numbers(&weights)
            .iter()
            .enumerate()
            .map(|(at, weight)| 2.0 * (weight + 1.0 + if at == 1 { 10.0 } else { 0.0 }))
            .collect();
        assert_eq!(numbers(&gradient(&gradients, &x)), expected);
    });
}

fn what_has_no_gradient_brings_none(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (x, y) = (coded_var(1, 1, &[3], DType::F32), coded_var(1, 2, &[3], DType::F32));
        let plain = coded_tensor(1, 3, &[3], DType::F32);
        for still in [x.detach(), x.as_detached_tensor(), plain, x.sqr().unwrap().detach()] {
            let sum = all_reduce(&still, ReduceOp::Sum, &group).unwrap().wait().unwrap();
            assert!(!sum.track_op());
            let before = group.calls();
            let loss = (sum * y.as_tensor()).unwrap().sum_all().unwrap();
            let gradients = backward(&loss).unwrap();
            assert!(gradients.get(&x).is_none());
            assert_eq!(gradient(&gradients, &y).dims(), [3]);
            assert_eq!(group.calls(), before, "nobody waits for a gradient");
        }
    });
}
