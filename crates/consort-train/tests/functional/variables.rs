//! Variables whose numbers are replaced, and tensors that are sent.

use candle_core::{DType, Device, Tensor, Var};
use consort::{ErrorKind, ReduceOp};
use consort_testkit::{Case, conformance};
use consort_train::Error;
use consort_train::candle::functional::{
    Message, Pending, all_gather, all_gather_out, all_reduce, all_reduce_coalesced_in_place,
    all_reduce_in_place, backward, batch, broadcast_in_place, permute, recv, reduce_scatter_out,
    send,
};

use super::meet::{bits, circle, coded_tensor, coded_var, gradient, meet, numbers, tensor};

conformance! { [shm tcp mixed in_process]
    numbers_of_a_variable_are_replaced_when_the_result_is_used
    tensors_are_sent_and_received
}
conformance! { [shm in_process]
    results_go_to_a_variable_of_their_shape
    a_variable_of_another_shape_is_refused_before_anything_moves
    what_was_replaced_has_no_gradient
    tensors_are_exchanged_at_once
    messages_and_calls_do_not_get_mixed_up
    a_message_of_another_kind_is_told_from_what_was_expected
}

fn numbers_of_a_variable_are_replaced_when_the_result_is_used(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = f64::from(ctx.rank());
        let var = || Var::from_tensor(&tensor(&[rank, 6.0, -rank], &[3], DType::F32)).unwrap();
        let (x, before) = (var(), numbers(&var()));
        let id = x.as_tensor().id();

        let averages = all_reduce_in_place(&x, ReduceOp::Avg, &group).unwrap();
        // All have made the call, and it is done: the numbers are still what they were.
        group.barrier().unwrap();
        assert_eq!(numbers(&x), before);
        let same = averages.wait().unwrap();
        assert_eq!(same.as_tensor().id(), id);
        assert_eq!(numbers(&x), [1.0, 6.0, -1.0]);

        let x = var();
        let largest = all_reduce_in_place(&x, ReduceOp::Max, &group).unwrap();
        largest.get().unwrap();
        assert_eq!(numbers(&x), [2.0, 6.0, 0.0]);

        let x = var();
        for root in [2, 0] {
            broadcast_in_place(&x, root, &group).unwrap().wait().unwrap();
            // Who was given rank 2's numbers gives them on.
            assert_eq!(numbers(&x), [2.0, 6.0, -2.0]);
        }

        let (x, y) = (var(), Var::from_tensor(&tensor(&[rank + 1.0], &[], DType::F64)).unwrap());
        let both = all_reduce_coalesced_in_place(&[&x, &y], ReduceOp::Sum, &group).unwrap();
        group.barrier().unwrap();
        assert_eq!((numbers(&x), numbers(&y)), (before.clone(), vec![rank + 1.0]));
        assert_eq!(both.wait().unwrap().len(), 2);
        assert_eq!((numbers(&x), numbers(&y)), (vec![3.0, 18.0, -3.0], vec![6.0]));

        // Nobody uses it: nothing is replaced.
        let x = var();
        drop(all_reduce_in_place(&x, ReduceOp::Sum, &group).unwrap());
        group.barrier().unwrap();
        assert_eq!(numbers(&x), before);
    });
}

fn results_go_to_a_variable_of_their_shape(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        for dtype in [DType::F32, DType::I64] {
            let x = tensor(&[rank as f64, 10.0 * rank as f64], &[1, 2], dtype);
            for (dim, shape, expected) in [
                (0, [3, 2], [0.0, 0.0, 1.0, 10.0, 2.0, 20.0]),
                (1, [1, 6], [0.0, 0.0, 1.0, 10.0, 2.0, 20.0]),
            ] {
                let out = Var::zeros(&shape[..], dtype, &Device::Cpu).unwrap();
                let all = all_gather_out(&x, dim, &out, &group).unwrap();
                assert_eq!(numbers(&out), [0.0; 6]);
                all.wait().unwrap();
                assert_eq!(numbers(&out), expected);
            }
            let out = Var::zeros((2, 3), dtype, &Device::Cpu).unwrap();
            all_gather_out(&x.t().unwrap(), 1, &out, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&out), [0.0, 1.0, 2.0, 0.0, 10.0, 20.0]);

            let out = Var::zeros((2, 1), dtype, &Device::Cpu).unwrap();
            let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], dtype);
            reduce_scatter_out(&x, ReduceOp::Sum, 1, &out, &group).unwrap().wait().unwrap();
            assert_eq!(numbers(&out), [3.0 * (1 + rank) as f64, 3.0 * (4 + rank) as f64]);
        }
    });
}

fn a_variable_of_another_shape_is_refused_before_anything_moves(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_tensor(ctx.rank() as usize, 1, &[2, 3], DType::F32);
        let before = group.calls();
        let room = |shape: &[usize], dtype| Var::zeros(shape, dtype, &Device::Cpu).unwrap();
        let refused = |pending: consort_train::Result<Pending<Var>>, words: [&str; 2]| {
            let error = pending.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mistake);
            let text = error.to_string();
            assert!(words.iter().all(|words| text.contains(words)), "{text}");
        };
        let out = room(&[2, 3], DType::F32);
        refused(all_gather_out(&x, 0, &out, &group), ["f32 [4, 3]", "f32 [2, 3]"]);
        refused(reduce_scatter_out(&x, ReduceOp::Sum, 0, &out, &group), ["[1, 3]", "[2, 3]"]);
        let out = room(&[4, 3], DType::F64);
        refused(all_gather_out(&x, 0, &out, &group), ["f32 [4, 3]", "f64 [4, 3]"]);
        let out = room(&[12], DType::F32);
        refused(all_gather_out(&x, 0, &out, &group), ["f32 [4, 3]", "f32 [12]"]);
        assert_eq!(group.calls(), before);
        let out = room(&[4, 3], DType::F32);
        all_gather_out(&x, 0, &out, &group).unwrap().wait().unwrap();
        assert_eq!(bits(&out.narrow(0, 2 * ctx.rank() as usize, 2).unwrap()), bits(&x));
    });
}

fn what_was_replaced_has_no_gradient(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_var(ctx.rank() as usize, 1, &[2], DType::F32);
        let out = Var::zeros(4, DType::F32, &Device::Cpu).unwrap();
        // Also of what has no gradient: the variable is not part of a graph.
        all_reduce_in_place(&x, ReduceOp::Product, &group).unwrap().wait().unwrap();
        all_gather_out(&x.sqr().unwrap(), 0, &out, &group).unwrap().wait().unwrap();
        let before = group.calls();
        let loss = out.sqr().unwrap().sum_all().unwrap();
        let gradients = backward(&loss).unwrap();
        assert!(gradients.get(&x).is_none());
        let expected: Vec<f64> = numbers(&out).iter().map(|number| 2.0 * number).collect();
        assert_eq!(numbers(&gradient(&gradients, &out)), expected);
        assert_eq!(group.calls(), before);
    });
}

fn tensors_are_sent_and_received(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank();
        let (next, previous) = ((rank + 1) % 3, (rank + 2) % 3);
        for dtype in [DType::F64, DType::BF16, DType::U8, DType::I64] {
            let of = |rank: u32| {
                let numbers: Vec<f64> = (0..6).map(|at| f64::from(10 * rank + at)).collect();
                tensor(&numbers, &[2, 3], dtype)
            };
            // In columns: what is received is in rows.
            let sent = send(&of(rank).t().unwrap(), next, 7, &group).unwrap();
            let received = recv((3, 2), dtype, previous, 7, &group).unwrap();
            let received: Pending = received.map(|columns| Ok(columns.t()?));
            let received = received.wait().unwrap();
            assert_eq!((received.dims(), received.dtype()), (&[2, 3][..], dtype));
            assert_eq!(numbers(&received), numbers(&of(previous)));
            sent.wait().unwrap();
        }
        // Gradients do not go back, and nobody waits for them.
        let x = coded_var(rank as usize, 1, &[2], DType::F32);
        let sent = send(&x, next, 8, &group).unwrap();
        let y = recv(2, DType::F32, previous, 8, &group).unwrap().wait().unwrap();
        sent.wait().unwrap();
        assert!(!y.track_op());
        let gradients = backward(&(y * x.as_tensor()).unwrap().sum_all().unwrap()).unwrap();
        assert_eq!(gradient(&gradients, &x).dims(), [2]);
        assert!(send(&x, 3, 7, &group).is_err() && recv(2, DType::F32, 3, 7, &group).is_err());
        group.barrier().unwrap();
    });
}

/// All send to all before anybody receives, more than any buffer between them holds.
fn tensors_are_exchanged_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let of = |from: u32, to: u32| {
            let x =
                Tensor::full(f32::from(10_u16 * from as u16 + to as u16), 1 << 19, &Device::Cpu);
            x.unwrap()
        };
        let me = ctx.rank();
        let sent: Vec<Tensor> = (0..3).map(|to| of(me, to)).collect();
        let mut messages: Vec<Message<'_>> = Vec::new();
        for (to, x) in (0..3_u32).zip(&sent) {
            messages.push(Message::Out { x, to: to.into(), tag: 1.into() });
        }
        for from in [2_u32, 0, 1] {
            let (shape, dtype) = ((1 << 19).into(), DType::F32);
            messages.push(Message::In { shape, dtype, from: from.into(), tag: 1.into() });
        }
        let received = batch(&messages, &group).unwrap().wait().unwrap();
        let first = |x: &Tensor| x.get(0).unwrap().to_scalar::<f32>().unwrap();
        let firsts: Vec<f32> = received.iter().map(first).collect();
        assert_eq!(firsts, [2, 0, 1].map(|from| (10 * from + me) as f32));
        for (x, from) in received.iter().zip([2, 0, 1]) {
            assert!(
                (x - of(from, me))
                    .unwrap()
                    .abs()
                    .unwrap()
                    .max_all()
                    .unwrap()
                    .to_scalar::<f32>()
                    .unwrap()
                    == 0.0
            );
        }
        let nobody = Message::Out { x: &sent[0], to: 3.into(), tag: 1.into() };
        let mistaken = [messages[0].clone(), nobody];
        assert!(batch(&mistaken, &group).unwrap_err().to_string().contains("no rank 3"));
        assert!(batch(&[], &group).unwrap().wait().unwrap().is_empty());
        group.barrier().unwrap();
    });
}

fn messages_and_calls_do_not_get_mixed_up(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (rank, other) = (ctx.rank() as usize, 1 - ctx.rank());
        let x = coded_var(rank, 1, &[2, 3], DType::F64);
        let message = coded_tensor(rank, 5, &[4], DType::F64);
        // Everything is on its way at once, and used in another order.
        let turned = permute(&x, &circle(2), &group).unwrap();
        let sent = send(&message, other, 3, &group).unwrap();
        let all = all_gather(&x, 1, &group).unwrap();
        let again = permute(&x, &[(0, 1)], &group).unwrap();
        let received = recv(4, DType::F64, other, 3, &group).unwrap();
        let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap();
        let of =
            |rank: u32, seed, shape: &[usize]| coded_tensor(rank as usize, seed, shape, DType::F64);
        assert_eq!(
            bits(sum.get().unwrap()),
            bits(&(of(0, 1, &[2, 3]) + of(1, 1, &[2, 3])).unwrap())
        );
        assert_eq!(bits(received.get().unwrap()), bits(&of(other, 5, &[4])));
        assert_eq!(bits(turned.get().unwrap()), bits(&of(other, 1, &[2, 3])));
        let expected =
            if rank == 1 { of(0, 1, &[2, 3]) } else { sum.get().unwrap().zeros_like().unwrap() };
        assert_eq!(bits(again.get().unwrap()), bits(&expected));
        assert_eq!(all.get().unwrap().dims(), [2, 6]);
        sent.wait().unwrap();
        let parts = [turned, again, sum].map(|part| part.wait().unwrap().sum_all().unwrap());
        let loss = parts
            .into_iter()
            .fold(all.wait().unwrap().sum_all().unwrap(), |sum, part| (sum + part).unwrap());
        // What each place is in: all of both ranks' but the second permutation, which is rank 0's.
        let expected = if rank == 0 { 6.0 } else { 5.0 };
        for gradients in [backward(&loss).unwrap(), loss.backward().unwrap()] {
            assert_eq!(numbers(&gradient(&gradients, &x)), [expected; 6]);
        }
    });
}

fn a_message_of_another_kind_is_told_from_what_was_expected(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded_tensor(0, 1, &[4], DType::F32);
        for (shape, dtype) in [(3, DType::F32), (2, DType::F64)] {
            match ctx.rank() {
                0 => drop(send(&x, 1, 7, &group).unwrap().wait()),
                _ => {
                    let error = recv(shape, dtype, 0, 7, &group).unwrap().wait().unwrap_err();
                    assert!(matches!(error, Error::Group(_)), "{error}");
                    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
                }
            }
        }
        let sum = all_reduce(&x, ReduceOp::Sum, &group).unwrap().wait().unwrap();
        assert_eq!(bits(&sum), bits(&(&x * 2.0).unwrap()));
    });
}
