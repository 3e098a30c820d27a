//! Gradients of variables that travel while backward goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::{DType, Tensor, Var, backprop::GradStore, bail};
use consort::{Group, ReduceOp};
use consort_testkit::{Case, conformance};
use consort_train::Error;
use consort_train::candle::functional::{all_gather, all_reduce, backward, permute};

use super::meet::{
    Mark, await_signal, circle, coded_var, gradient, loss_of, meet, numbers, signal, tensor,
};
use super::programs::{calls, compositions};

conformance! { [shm tcp mixed in_process]
    gradients_that_travel_are_those_that_are_waited_for
    the_gradient_of_a_variable_is_not_waited_for
}
conformance! { [shm in_process]
    gradients_of_a_variable_are_added_up_whether_they_travel_or_not
    gradients_that_were_on_their_way_are_added_last
    a_backward_within_another_has_gradients_of_its_own
    candles_own_backward_within_another_has_gradients_of_its_own
    several_threads_go_back_at_once
    a_backward_that_panics_leaves_nothing_behind
    a_backward_that_fails_leaves_nothing_behind
    a_loss_that_nobody_has_a_part_in_has_no_gradients
}

/// The bits of a gradient. Candle adds the first one to zero, which has no sign then.
fn bits(gradient: &Tensor) -> Vec<u64> {
    numbers(gradient).into_iter().map(|number| (number + 0.0).to_bits()).collect()
}

fn gradients_that_travel_are_those_that_are_waited_for(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (rank, world) = (group.rank().index(), group.world());
        for program in calls(world).into_iter().chain(compositions()) {
            for dtype in [DType::F64, DType::F32, DType::BF16] {
                let shapes = (program.shapes)(rank, world);
                let var = |(seed, shape): (usize, &Vec<usize>)| {
                    let x = coded_var(rank, seed, shape, dtype);
                    // With bits that are rounded.
                    Var::from_tensor(&(x.as_tensor() / 3.0).unwrap()).unwrap()
                };
                let vars: Vec<Var> = shapes.iter().enumerate().map(var).collect();
                let inputs: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
                let outputs = (program.forward)(&inputs, &group).unwrap();
                let each = outputs.iter().enumerate();
                let losses = each.map(|(seed, y)| loss_of(y, rank, seed).unwrap());
                let loss = losses.reduce(|sum, loss| (sum + loss).unwrap()).unwrap();
                // The same graph, twice: nothing is used up.
                let (ours, by_candle) = (backward(&loss).unwrap(), loss.backward().unwrap());
                for var in &vars {
                    let (ours, by_candle) = (gradient(&ours, var), gradient(&by_candle, var));
                    assert_eq!(bits(&ours), bits(&by_candle), "{}, {dtype:?}", program.name);
                }
                let (ours, by_candle) = (ours.get_ids().count(), by_candle.get_ids().count());
                assert_eq!(ours, by_candle, "{}", program.name);
            }
        }
    });
}

/// A loss in whose backward rank 1 comes to the gradient of `x` only when rank 0 is past it and has said so.
fn loss_with_a_late_rank(x: &Var, group: &Group, said: &'static str) -> Tensor {
    let is_late = group.rank().index() == 1;
    let y = all_gather(x, 0, group).unwrap().wait().unwrap();
    let there = group.clone();
    let y = Mark(move || {
        if is_late {
            await_signal(&there, said, 1);
        }
        Ok(())
    })
    .on(&y);
    let there = group.clone();
    let other = Mark(move || {
        if !is_late {
            signal(&there, said);
        }
        Ok(())
    })
    .on(&coded_var(0, 9, &[2], DType::F64));
    // Candle's backward takes the second of two first.
    (other.sum_all().unwrap() + loss_of(&y, group.rank().index(), 3).unwrap()).unwrap()
}

fn the_gradient_of_a_variable_is_not_waited_for(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[2, 3], DType::F64);
        let gradients = backward(&loss_with_a_late_rank(&x, &group, "past it")).unwrap();
        let ours = gradient(&gradients, &x);
        let trace = group.trace().unwrap();
        let calls = trace.groups[0].calls.iter().map(|call| call.operation().unwrap().name());
        assert_eq!(calls.collect::<Vec<_>>(), ["all_gather", "reduce_scatter"]);
        let y = all_gather(&x, 0, &group).unwrap().wait().unwrap();
        let expected = loss_of(&y, ctx.rank() as usize, 3).unwrap().backward().unwrap();
        assert_eq!(bits(&ours), bits(&gradient(&expected, &x)));

        // Candle by itself waits, and so never comes to say that it is past it.
        let brief = group.within(Duration::from_millis(300));
        let loss = loss_with_a_late_rank(&x, &brief, "never");
        if ctx.rank() == 1 {
            // What the other has sent before it gave up may be there.
            return drop(loss.backward());
        }
        let error = Error::from(loss.backward().unwrap_err());
        signal(&group, "never");
        let is_late = matches!(
            &error,
            Error::Group(consort::Error::Late { missing, .. }) if *missing == [1]
        );
        assert!(is_late, "{error}");
    });
}

fn gradients_of_a_variable_are_added_up_whether_they_travel_or_not(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // What is added up is exact, in whatever order.
        let weight = |at: u32| f64::from((at + 1) * (ctx.rank() + 1));
        for uses in 0..32 {
            let x = coded_var(ctx.rank() as usize, 1, &[3], DType::F32);
            let made = x.affine(2.0, 1.0).unwrap();
            let mut loss = (x.sum_all().unwrap() * 64.0).unwrap();
            for at in (0..5).filter(|at| uses >> at & 1 == 1) {
                let y = match at {
                    0 => all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap(),
                    1 => x.affine(3.0, 0.0).unwrap(),
                    2 => permute(&x, &circle(2), &group).unwrap().wait().unwrap(),
                    3 => all_reduce(&made, ReduceOp::Avg, &group).unwrap().wait().unwrap(),
                    _ => all_gather(&x, 0, &group).unwrap().wait().unwrap(),
                };
                loss = (loss + (y.sum_all().unwrap() * weight(at)).unwrap()).unwrap();
            }
            let (ours, by_candle) = (backward(&loss).unwrap(), loss.backward().unwrap());
            let ours = gradient(&ours, &x);
            assert_eq!(bits(&ours), bits(&gradient(&by_candle, &x)), "uses {uses:05b}");
            // Of all uses: the first and the third bring the sum, or the other's; and so on.
            let mine = f64::from(ctx.rank() + 1);
            let parts = [3.0, 3.0 * 2.0 * mine, 3.0 * (3.0 - mine), 2.0 * 4.0 * 1.5, 5.0 * 3.0];
            let used = parts.iter().enumerate().filter(|(at, _)| uses >> at & 1 == 1);
            let expected = 64.0 + used.map(|(_, part)| part).sum::<f64>();
            assert_eq!(numbers(&ours), [expected; 3], "uses {uses:05b}");
        }
    });
}

/// What is left of three numbers depends on which two are added up first.
fn gradients_that_were_on_their_way_are_added_last(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[1], DType::F32);
        let travels = permute(&x, &circle(2), &group).unwrap().wait().unwrap();
        let times = |x: &Tensor, weight: f64| (x * weight).unwrap().sum_all().unwrap();
        // Candle's backward takes the second of two first.
        let loss = (times(&x, 2_f64.powi(-30)) + times(&travels, -1.0)).unwrap();
        let loss = (loss + times(&x, 1.0)).unwrap();
        let by_candle = gradient(&loss.backward().unwrap(), &x);
        assert_eq!(numbers(&by_candle), [2_f64.powi(-30)]);
        // Which rounds the small one away.
        assert_eq!(numbers(&gradient(&backward(&loss).unwrap(), &x)), [0.0]);
    });
}

fn a_backward_within_another_has_gradients_of_its_own(case: Case) {
    case.run(2, |ctx| within_another(&meet(ctx), backward));
}

fn candles_own_backward_within_another_has_gradients_of_its_own(case: Case) {
    case.run(2, |ctx| within_another(&meet(ctx), |loss| Ok(loss.backward()?)));
}

/// While backward is under way somebody else goes back as well, as those do who compute part of a forward
/// again when its gradient is needed.
fn within_another(group: &Group, go_back: fn(&Tensor) -> consort_train::Result<GradStore>) {
    let rank = group.rank().index();
    let [before, inner, after] = [1, 2, 3].map(|seed| coded_var(rank, seed, &[2], DType::F64));
    let loss_of_sum = |x: &Var| {
        let sum = all_reduce(x, ReduceOp::Sum, group).unwrap().wait().unwrap();
        loss_of(&sum, rank, 5).unwrap()
    };
    let inner_loss = loss_of_sum(&inner);
    let found = Arc::new(Mutex::new(None));
    let mark = {
        let (found, loss) = (found.clone(), inner_loss.clone());
        Mark(move || {
            *found.lock().unwrap() = Some(go_back(&loss).unwrap());
            Ok(())
        })
    };
    let other = coded_var(rank, 4, &[2], DType::F64);
    // Candle's backward takes the second of two first.
    let marked = mark.on(&other).sum_all().unwrap();
    let loss = (loss_of_sum(&after) + (marked + loss_of_sum(&before)).unwrap()).unwrap();
    let gradients = backward(&loss).unwrap();
    let found = found.lock().unwrap().take().expect("the inner one came by");
    let expected = inner_loss.backward().unwrap();
    assert_eq!(bits(&gradient(&found, &inner)), bits(&gradient(&expected, &inner)));
    assert!(gradients.get(&inner).is_none(), "it belongs to the inner one");
    for var in [&before, &after] {
        assert!(found.get(var).is_none(), "it belongs to the outer one");
        let expected = loss_of_sum(var).backward().unwrap();
        assert_eq!(bits(&gradient(&gradients, var)), bits(&gradient(&expected, var)));
    }
    assert_eq!(numbers(&gradient(&gradients, &other)), [1.0; 2]);
}

/// Each with a group of its own, and gradients of its own.
fn several_threads_go_back_at_once(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let groups = [(); 3].map(|()| group.split(Some(0), 0).unwrap().unwrap());
        std::thread::scope(|scope| {
            for (seed, group) in groups.iter().enumerate() {
                scope.spawn(move || {
                    let x = coded_var(rank, seed, &[4], DType::F64);
                    for turn in 0..20 {
                        let sum = all_reduce(&x, ReduceOp::Sum, group).unwrap().wait().unwrap();
                        let all = all_gather(&x, 0, group).unwrap().wait().unwrap();
                        let (sum, all) = (loss_of(&sum, rank, turn), loss_of(&all, rank, turn));
                        let loss = (sum.unwrap() + all.unwrap()).unwrap();
                        let (ours, expected) = (backward(&loss), loss.backward());
                        let ours = gradient(&ours.unwrap(), &x);
                        assert_eq!(bits(&ours), bits(&gradient(&expected.unwrap(), &x)));
                    }
                });
            }
        });
    });
}

/// A loss in whose backward something happens when the gradient of `x` is on its way.
fn loss_with_a_surprise(
    x: &Var,
    group: &Group,
    surprise: impl Fn() -> candle_core::Result<()> + Send + Sync + 'static,
) -> Tensor {
    let sum = all_reduce(x, ReduceOp::Sum, group).unwrap().wait().unwrap();
    let other = Mark(surprise).on(&coded_var(0, 9, &[2], DType::F64)).sum_all().unwrap();
    (other + sum.sum_all().unwrap()).unwrap()
}

/// Candle's own backward gives gradients again, which nobody collects.
fn assert_nothing_is_left(x: &Var, group: &Group) {
    for _ in 0..2 {
        let sum = all_reduce(x, ReduceOp::Sum, group).unwrap().wait().unwrap();
        let loss = sum.sum_all().unwrap();
        for gradients in [loss.backward().unwrap(), backward(&loss).unwrap()] {
            assert_eq!(numbers(&gradient(&gradients, x)), [2.0; 2]);
        }
    }
}

fn a_backward_that_panics_leaves_nothing_behind(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = Var::from_tensor(&tensor(&[0.5, 1.5], &[2], DType::F64)).unwrap();
        let loss = loss_with_a_surprise(&x, &group, || panic!("on purpose"));
        for _ in 0..2 {
            let before = group.calls();
            let panicked = catch_unwind(AssertUnwindSafe(|| backward(&loss).is_ok()));
            assert_eq!(*panicked.unwrap_err().downcast_ref::<&str>().unwrap(), "on purpose");
            assert_eq!(group.calls(), before + 1, "the gradient was on its way");
            assert_nothing_is_left(&x, &group);
        }
    });
}

fn a_backward_that_fails_leaves_nothing_behind(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = Var::from_tensor(&tensor(&[0.5, 1.5], &[2], DType::F64)).unwrap();
        let loss = loss_with_a_surprise(&x, &group, || bail!("no water"));
        for _ in 0..2 {
            let before = group.calls();
            let error = backward(&loss).unwrap_err();
            assert!(matches!(&error, Error::Candle(_)), "{error}");
            assert!(error.to_string().contains("no water"), "{error}");
            assert_eq!(group.calls(), before + 1, "the gradient was on its way");
            assert_nothing_is_left(&x, &group);
        }
    });
}

fn a_loss_that_nobody_has_a_part_in_has_no_gradients(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[2], DType::F64);
        let sum = all_reduce(&x.detach(), ReduceOp::Sum, &group).unwrap().wait().unwrap();
        let gradients = backward(&sum.sum_all().unwrap()).unwrap();
        assert!(gradients.get(&x).is_none());
        group.barrier().unwrap();
    });
}
