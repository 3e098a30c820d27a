//! Calls that have no gradient, or make no sense.

use candle_core::{DType, Device, Tensor};
use consort::functional::Collective;
use consort::{ErrorKind, Group, ReduceOp};
use consort_testkit::{Case, conformance};
use consort_train::Error;
use consort_train::candle::functional::{
    Pending, all_gather, all_reduce, all_reduce_coalesced, all_to_all, all_to_all_uneven, backward,
    broadcast, coalesced, permute, reduce, reduce_scatter, reduce_scatter_coalesced,
};

use super::meet::{coded_tensor, coded_var, gradient, meet, numbers};

conformance! { [shm tcp mixed in_process]
    what_is_not_linear_is_refused_if_its_gradient_is_wanted
}
conformance! { [shm in_process]
    what_is_not_linear_is_allowed_if_no_gradient_is_wanted
    one_of_several_that_has_no_gradient_refuses_all
    calls_that_make_no_sense_are_refused_before_anything_moves
}

/// Everyone is refused, nothing is called, and the group goes on.
fn assert_refused<T>(
    group: &Group,
    call: impl FnOnce() -> consort_train::Result<T>,
    words: &[&str],
) {
    let before = group.calls();
    let Err(error) = call() else { panic!("nobody has refused it") };
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Mistake, "{text}");
    for words in words {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("  "), "{text}");
    assert_eq!(group.calls(), before);
    let one = Tensor::new(&[1_f32], &Device::Cpu).unwrap();
    let sum = all_reduce(&one, ReduceOp::Sum, group).unwrap().wait().unwrap();
    assert_eq!(numbers(&sum), [group.world() as f64]);
}

fn what_is_not_linear_is_refused_if_its_gradient_is_wanted(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[3, 2], DType::F32);
        // The variable, and what was made of it.
        for x in [x.as_tensor().clone(), x.exp().unwrap()] {
            for (op, name, why) in [
                (ReduceOp::Max, "max", "the rank whose number it is"),
                (ReduceOp::Min, "min", "the rank whose number it is"),
                (ReduceOp::Product, "product", "the product of all others"),
            ] {
                let refused = |of: &str, call: &dyn Fn() -> consort_train::Result<Pending>| {
                    let begins = format!("{of}({name}) has no gradient");
                    assert_refused(&group, call, &[&begins, why, "detach"]);
                };
                refused("all_reduce", &|| all_reduce(&x, op, &group));
                refused("reduce", &|| reduce(&x, op, 1, &group));
                refused("reduce_scatter", &|| reduce_scatter(&x, op, 0, &group));
            }
        }
        all_reduce(&x, ReduceOp::Max, &group).unwrap_err().to_string()
    });
    assert!(told.iter().all(|text| *text == told[0]), "{told:?}");
}

fn what_is_not_linear_is_allowed_if_no_gradient_is_wanted(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let x = coded_var(rank, 1, &[3, 2], DType::F64);
        let all: Vec<Vec<f64>> =
            (0..3).map(|rank| numbers(&coded_tensor(rank, 1, &[3, 2], DType::F64))).collect();
        let combined = |op: fn(f64, f64) -> f64| -> Vec<f64> {
            (0..6).map(|at| all.iter().map(|one| one[at]).reduce(op).unwrap()).collect()
        };
        for (op, expected) in [
            (ReduceOp::Max, combined(f64::max)),
            (ReduceOp::Min, combined(f64::min)),
            (ReduceOp::Product, combined(|a, b| a * b)),
        ] {
            let still = x.detach();
            let y = all_reduce(&still, op, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&y), expected);
            let mine = reduce_scatter(&still, op, 0, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&mine), expected[2 * rank..2 * rank + 2]);
            let on_root = reduce(&still, op, 0, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&on_root), if rank == 0 { expected } else { vec![0.0; 6] });
        }
        // A softmax over all ranks: the largest is taken away again.
        let largest = all_reduce(&x.max_all().unwrap().detach(), ReduceOp::Max, &group).unwrap();
        let powers = x.broadcast_sub(&largest.wait().unwrap()).unwrap().exp().unwrap();
        let sum = all_reduce(&powers.sum_all().unwrap(), ReduceOp::Sum, &group).unwrap();
        let shares = powers.broadcast_div(&sum.wait().unwrap()).unwrap();
        let gradients = backward(&shares.sqr().unwrap().sum_all().unwrap()).unwrap();

        let whole: Vec<Tensor> =
            (0..3).map(|rank| coded_tensor(rank, 1, &[3, 2], DType::F64)).collect();
        let whole = candle_core::Var::from_tensor(&Tensor::cat(&whole, 0).unwrap()).unwrap();
        let powers = whole.exp().unwrap();
        let alone = powers.broadcast_div(&powers.sum_all().unwrap()).unwrap();
        let alone = alone.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let expected = gradient(&alone, &whole).narrow(0, 3 * rank, 3).unwrap();
        super::meet::assert_close(&gradient(&gradients, &x), &expected, 1e-12, "a softmax");

        let bits = Tensor::new(&[1_u32 << rank], &Device::Cpu).unwrap();
        let either = all_reduce(&bits, ReduceOp::BitOr, &group).unwrap().wait().unwrap();
        assert_eq!(either.to_vec1::<u32>().unwrap(), [7]);
    });
}

fn one_of_several_that_has_no_gradient_refuses_all(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (x, y) = (coded_var(0, 1, &[2], DType::F32), coded_var(0, 2, &[2], DType::F32));
        let (sum, max) = (
            Collective::AllReduce { op: ReduceOp::Sum },
            Collective::AllReduce { op: ReduceOp::Max },
        );
        let calls = [(sum.clone(), x.as_tensor()), (max.clone(), y.as_tensor())];
        assert_refused(&group, || coalesced(&calls, &group), &["all_reduce(max)", "detach"]);
        let product = ReduceOp::Product;
        let of_both = || all_reduce_coalesced(&[&x, &y], product, &group);
        assert_refused(&group, of_both, &["all_reduce(product)", "detach"]);
        let of_both = || reduce_scatter_coalesced(&[(&x, 0), (&y, 0)], product, &group);
        assert_refused(&group, of_both, &["reduce_scatter(product)", "detach"]);
        // The same with one of them detached.
        let still = y.detach();
        let both = coalesced(&[(sum, &x), (max, &still)], &group).unwrap().wait().unwrap();
        assert!(both[0].track_op() && !both[1].track_op());
        assert_eq!(numbers(&both[1]), numbers(&y));
    });
}

fn calls_that_make_no_sense_are_refused_before_anything_moves(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(0, 1, &[3, 2], DType::F32);
        let sum = ReduceOp::Sum;
        let refuse = |call: &dyn Fn() -> consort_train::Result<Pending>, words: &str| {
            assert_refused(&group, call, &[words]);
        };
        refuse(&|| reduce_scatter(&x, sum, 0, &group), "cannot share equally");
        refuse(&|| all_to_all(&x, &group), "cannot share equally");
        refuse(&|| all_gather(&x, 2, &group), "all_gather");
        refuse(&|| reduce_scatter(&x, sum, 2, &group), "reduce_scatter");
        refuse(&|| broadcast(&x, 2, &group), "no rank 2");
        refuse(&|| reduce(&x, sum, 7, &group), "no rank 7");
        refuse(&|| all_to_all_uneven(&x, &[3], &[3, 0], &group), "`to` has 1");
        refuse(&|| permute(&x, &[(0, 1), (0, 0)], &group), "sends twice");
        let tiny = Tensor::zeros(2, DType::F8E4M3, &Device::Cpu).unwrap();
        refuse(&|| all_gather(&tiny, 0, &group), "f8e4m3");
        // Whose gradient would come to them: only those on the list.
        let error = all_reduce(&x, sum, (&group, &[1 - ctx.rank()])).unwrap_err();
        assert!(matches!(error, Error::Group(_)), "{error}");
        group.barrier().unwrap();
    });
}
