//! Ranks that die, that do not come, and that do something else.

use std::time::{Duration, Instant};

use candle_core::{DType, Tensor, backprop::GradStore};
use consort::{ErrorKind, Group, ReduceOp};
use consort_testkit::{Case, Outcome, conformance};
use consort_train::Error;
use consort_train::candle::functional::{all_gather, all_reduce, backward, broadcast, permute};

use super::meet::{
    Mark, await_all, await_signal, circle, coded_var, gradient, loss_of, meet, numbers, signal,
};

conformance! { [shm tcp mixed]
    a_rank_that_is_killed_in_backward_is_named_by_the_others
}
conformance! { [shm tcp mixed in_process]
    a_rank_that_does_not_go_back_is_named_by_the_others
    a_rank_that_wants_no_gradient_is_shown_what_the_others_call
    a_rank_that_wants_no_gradient_and_does_nothing_else_is_named
    a_rank_that_gives_a_plain_tensor_to_a_broadcast_is_named
}
conformance! { [shm in_process]
    a_rank_that_wants_no_gradient_never_takes_one_for_a_number
    ranks_that_go_back_in_another_order_are_told
}

/// Both ways to go back.
fn go_back(loss: &Tensor, by_candle: bool) -> consort_train::Result<GradStore> {
    match by_candle {
        true => Ok(loss.backward()?),
        false => backward(loss),
    }
}

fn a_rank_that_is_killed_in_backward_is_named_by_the_others(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let x = coded_var(rank, 1, &[2, 3], DType::F64);
        let loss = |group: &Group, is_to_die: bool| {
            let y = all_reduce(&x, ReduceOp::Sum, group).unwrap().wait().unwrap();
            let waits = all_gather(&y.tanh().unwrap(), 0, group).unwrap().wait().unwrap();
            if is_to_die {
                ctx.reach("forward is done");
                let mark = Mark(|| {
                    loop {
                        std::thread::sleep(Duration::from_secs(1));
                    }
                });
                return loss_of(&mark.on(&waits), rank, 3).unwrap();
            }
            loss_of(&waits, rank, 3).unwrap()
        };
        go_back(&loss(&group, false), rank.is_multiple_of(2)).unwrap();
        let of_x = loss(&group, rank == 1);
        await_all(&group, "forward");
        if rank != 1 {
            ctx.reach("backward");
        }
        // By candle alone on some, while gradients travel on others.
        let started = Instant::now();
        let error = go_back(&of_x, rank.is_multiple_of(2)).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(20));
        let is_named = matches!(&error, Error::Group(consort::Error::PeerLost { rank: 1, .. }));
        assert!(is_named, "{error:?}");
        assert_eq!(error.kind(), ErrorKind::PeerGone);
        // What was begun before says the same, and so does another try.
        let again = go_back(&of_x, rank.is_multiple_of(2)).unwrap_err();
        assert!(matches!(&again, Error::Group(_)), "{again}");

        let smaller = group.shrink().unwrap();
        let gradients = go_back(&loss(&smaller, false), rank.is_multiple_of(2)).unwrap();
        assert_eq!(gradient(&gradients, &x).dims(), [2, 3]);
        error.to_string()
    });
    for rank in [0, 2, 3] {
        job.await_point(rank, "backward");
    }
    std::thread::sleep(Duration::from_millis(50));
    job.kill(1);
    for (rank, outcome) in job.wait().into_iter().enumerate() {
        match outcome {
            Outcome::Done(text) => assert!(rank != 1 && text.contains("rank 1 is gone"), "{text}"),
            other => assert_eq!((rank, other), (1, Outcome::Signalled(9))),
        }
    }
}

fn a_rank_that_does_not_go_back_is_named_by_the_others(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let brief = group.within(Duration::from_millis(400));
        let x = coded_var(rank, 1, &[2, 3], DType::F32);
        let y = all_reduce(&x, ReduceOp::Avg, &brief).unwrap().wait().unwrap();
        let loss = loss_of(&y, rank, 3).unwrap();
        await_all(&group, "forward");
        if rank == 2 {
            // It is alive, and elsewhere.
            await_signal(&group, "told", 2);
            assert!(backward(&loss).is_err());
            return;
        }
        let error = go_back(&loss, rank == 0).unwrap_err();
        signal(&group, "told");
        assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
        let is_named =
            matches!(&error, Error::Group(consort::Error::Late { missing, .. }) if *missing == [2]);
        assert!(is_named, "{error:?}");
    });
}

/// Rank 1's tensor has no gradient: it makes no call backward, and comes to its next one.
fn a_rank_that_wants_no_gradient_is_shown_what_the_others_call(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let x = coded_var(rank, 1, &[2, 3], DType::F32);
        let given = if rank == 1 { x.detach() } else { x.as_tensor().clone() };
        let y = all_gather(&given, 0, &group).unwrap().wait().unwrap();
        await_all(&group, "forward");
        let loss = (loss_of(&y, rank, 3).unwrap() + x.sum_all().unwrap()).unwrap();
        let outcome = backward(&loss).map(drop).and_then(|()| Ok(group.barrier()?));
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        let text = error.to_string();
        assert!(text.contains("reduce_scatter") && text.contains("barrier"), "{text}");
    });
}

fn a_rank_that_wants_no_gradient_and_does_nothing_else_is_named(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let brief = group.within(Duration::from_millis(400));
        let x = coded_var(rank, 1, &[2, 3], DType::F32);
        let given = if rank == 1 { x.detach() } else { x.as_tensor().clone() };
        for turn in ["permute", "all_reduce"] {
            let y = match turn {
                "permute" => permute(&given, &circle(2), &brief).unwrap().wait().unwrap(),
                _ => all_reduce(&given, ReduceOp::Sum, &brief).unwrap().wait().unwrap(),
            };
            await_all(&group, turn);
            let loss = (loss_of(&y, rank, 3).unwrap() + x.sum_all().unwrap()).unwrap();
            match backward(&loss) {
                Ok(_) => assert_eq!(rank, 1),
                Err(error) => {
                    assert_eq!((rank, error.kind()), (0, ErrorKind::Deadline), "{error}");
                    let is_named = matches!(
                        &error,
                        Error::Group(consort::Error::Late { missing, .. }) if *missing == [1]
                    );
                    assert!(is_named, "{error}");
                }
            }
            await_all(&group, &format!("after {turn}"));
        }
    });
}

fn a_rank_that_gives_a_plain_tensor_to_a_broadcast_is_named(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let brief = group.within(Duration::from_millis(400));
        let x = coded_var(rank, 1, &[2, 3], DType::F32);
        // A placeholder that is no variable.
        let given = if rank == 0 { x.as_tensor().clone() } else { x.zeros_like().unwrap() };
        let y = broadcast(&given, 0, &brief).unwrap().wait().unwrap();
        await_all(&group, "forward");
        match backward(&loss_of(&y, rank, 3).unwrap()) {
            Ok(gradients) => assert!(rank != 0 && gradients.get(&x).is_none()),
            Err(error) => {
                assert_eq!((rank, error.kind()), (0, ErrorKind::Deadline), "{error}");
                let Error::Group(consort::Error::Late { missing, .. }) = &error else {
                    panic!("{error}")
                };
                assert!(!missing.is_empty() && !missing.contains(&0), "{error}");
            }
        }
        await_all(&group, "backward");
    });
}

/// Rank 1 makes no call backward, and its next one is the same as what rank 0 calls for the gradient.
fn a_rank_that_wants_no_gradient_never_takes_one_for_a_number(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let rank = ctx.rank() as usize;
        let brief = group.within(Duration::from_millis(400));
        let x = coded_var(rank, 1, &[2, 3], DType::F32);
        let expected: Vec<f64> = numbers(&coded_var(0, 1, &[2, 3], DType::F32))
            .iter()
            .zip(numbers(&coded_var(1, 1, &[2, 3], DType::F32)))
            .map(|(a, b)| a + b)
            .collect();
        let mut wrong = Vec::new();
        for turn in ["first", "second"] {
            let given = if rank == 1 { x.detach() } else { x.as_tensor().clone() };
            let y = all_reduce(&given, ReduceOp::Sum, &brief).and_then(|y| y.wait());
            let Ok(y) = y else { break };
            if numbers(&y) != expected {
                wrong.push(turn);
            }
            let loss = (loss_of(&y, rank, 3).unwrap() + x.sum_all().unwrap()).unwrap();
            if backward(&loss).is_err() {
                break;
            }
        }
        await_all(&group, "done");
        assert!(wrong.is_empty(), "rank {rank} has taken a gradient for a number: {wrong:?}");
    });
}

/// Two gradients of equal shapes, which would fit each other's calls.
fn ranks_that_go_back_in_another_order_are_told(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let [a, b] = [1, 2].map(|seed| coded_var(0, seed, &[2], DType::F64));
        let gather = |x| all_gather(x, 0, &group).unwrap().wait().unwrap();
        let (a, b) = (gather(&a).sqr().unwrap(), gather(&b).tanh().unwrap());
        let (a, b) = (a.sum_all().unwrap(), b.sum_all().unwrap());
        let loss = if ctx.rank() == 0 { a + b } else { b + a }.unwrap();
        let error = backward(&loss).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("their losses were computed differently"), "{error}");
    });
}
