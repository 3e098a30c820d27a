//! Ranks that die.

use std::sync::{Arc, Mutex};

use candle_core::{DType, Tensor};
use candle_nn::{Module, Optimizer, SGD, VarBuilder, VarMap, linear};
use consort::{ErrorKind, Group};
use consort_testkit::{Case, Outcome, conformance};
use consort_train::Caps;
use consort_train::Error;
use consort_train::candle::{DistributedDataParallel, Options};

use super::nets::{
    Alone, EXAMPLES, MLP, Net, RATE, await_all, batch, bits, distance, loss, meet, step, tolerance,
};
use super::overlap::Mark;

conformance! { [shm tcp mixed]
    the_survivors_of_a_rank_that_dies_in_backward_go_on_with_a_smaller_group
}
conformance! { [shm tcp mixed in_process]
    a_newcomer_and_those_who_were_there_go_on_together
}

/// One like the others, with a bucket for each parameter. When it is to die, it does so in backward,
/// between the two layers.
fn build(group: &Group, is_to_die: &Arc<Mutex<bool>>) -> (DistributedDataParallel, Net) {
    let reducer = consort_train::Options::new().caps(Caps::of(1).unwrap());
    let (options, variables) = (Options::new().reducer(reducer), VarMap::new());
    let is_to_die = is_to_die.clone();
    let build = |vb: VarBuilder<'static>| {
        let (first, last) = (linear(7, 13, vb.pp("first"))?, linear(13, 5, vb.pp("last"))?);
        let net = move |x: &Tensor| {
            let is_to_die = is_to_die.clone();
            let mark = Mark(move || {
                if *is_to_die.lock().unwrap() {
                    std::process::abort();
                }
            });
            last.forward(&first.forward(x)?.tanh()?.apply_op1(mark)?)
        };
        Ok(Box::new(net) as Net)
    };
    DistributedDataParallel::with_options(group, &variables, DType::F32, options, build).unwrap()
}

fn the_survivors_of_a_rank_that_dies_in_backward_go_on_with_a_smaller_group(case: Case) {
    let outcomes = case
        .of(3)
        .start(|ctx| {
            let group = meet(ctx);
            let is_to_die = Arc::default();
            let (ddp, net) = build(&group, &is_to_die);
            (0..3).for_each(|turn| step(&ddp, &net, MLP, turn));
            let x = batch(MLP, DType::F32, ctx.rank() as usize, 3, EXAMPLES).unwrap();
            let of_x = loss(&net, &x).unwrap();
            await_all(&group);
            *is_to_die.lock().unwrap() = ctx.rank() == 1;
            let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
            let error = ddp.backward_step(&mut optimizer, &of_x).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            assert!(matches!(error, Error::Group(_)), "{error}");
            assert!(matches!(ddp.backward(&of_x), Err(Error::Failed { .. } | Error::Group(_))));
            let smaller = group.shrink().unwrap();
            ddp.set_group(&smaller).unwrap();
            let alone = Alone::like(MLP, &ddp);
            for turn in 3..8 {
                step(&ddp, &net, MLP, turn);
                alone.step(2, turn);
                assert!(distance(&ddp.vars(), &alone.vars()) <= tolerance(DType::F32));
                ddp.verify().unwrap();
            }
            (error.to_string(), bits(&ddp.vars()))
        })
        .wait();
    let mut survivors = Vec::new();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Outcome::Done(told) => survivors.push(told),
            other => assert_eq!(rank, 1, "{other:?}"),
        }
    }
    assert!(survivors.len() == 2 && survivors[0] == survivors[1], "{survivors:?}");
    assert!(survivors[0].0.contains("rank 1 is gone"), "{survivors:?}");
}

/// One who comes later builds its model, while those who were there give theirs another group.
fn a_newcomer_and_those_who_were_there_go_on_together(case: Case) {
    let all = case.run(3, |ctx| {
        let world = meet(ctx);
        let is_new = ctx.rank() == 2;
        let part = world.split(Some(u32::from(is_new)), 0).unwrap().unwrap();
        let (ddp, net) = if is_new {
            build(&world, &Arc::default())
        } else {
            let (ddp, net) = build(&part, &Arc::default());
            (0..2).for_each(|turn| step(&ddp, &net, MLP, turn));
            let before = bits(&ddp.vars());
            ddp.set_group(&world).unwrap();
            // What was learned is not lost.
            assert_eq!(bits(&ddp.vars()), before);
            (ddp, net)
        };
        (2..5).for_each(|turn| step(&ddp, &net, MLP, turn));
        ddp.verify().unwrap();
        bits(&ddp.vars())
    });
    assert!(all.iter().all(|one| *one == all[0]));
}
