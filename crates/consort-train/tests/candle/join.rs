//! Ranks that do not have the same number of batches.

use candle_core::{DType, Device, Tensor};
use candle_nn::{BatchNormConfig, Init, ModuleT, Optimizer, SGD, VarMap, batch_norm};
use consort_testkit::{Case, conformance};
use consort_train::Uneven;
use consort_train::candle::DistributedDataParallel;

use super::nets::{EXAMPLES, MLP, RATE, batch, bits, loss, meet};

conformance! { [shm in_process]
    who_has_fewer_batches_ends_with_what_the_others_have_learned
    all_end_with_the_first_if_asked
    buffers_of_those_who_have_batches_reach_all
}

fn who_has_fewer_batches_ends_with_what_the_others_have_learned(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
        let mut training = ddp.join(Uneven::DivideByWorld).unwrap();
        for step in 0..[2, 7, 4][ctx.rank() as usize] {
            let x = batch(MLP, DType::F32, ctx.rank() as usize, step, EXAMPLES).unwrap();
            assert!(training.backward_step(&mut optimizer, &loss(&net, &x).unwrap()).unwrap());
        }
        let end = training.finish().unwrap();
        assert_eq!((end.last, end.shadowed), (1, [5, 0, 3][ctx.rank() as usize]));
        ddp.verify().unwrap();
        // They go on together as before.
        super::nets::step(&ddp, &net, MLP, 9);
        ddp.verify().unwrap();
        bits(&ddp.vars())
    });
    assert!(all.iter().all(|bits| *bits == all[0]));
}

fn all_end_with_the_first_if_asked(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let build =
            |vb: candle_nn::VarBuilder<'static>| vb.get_with_hints(1, "weight", Init::Const(0.0));
        let (ddp, weight) =
            DistributedDataParallel::new(&group, &VarMap::new(), DType::F64, build).unwrap();
        let mut optimizer = SGD::new(ddp.vars(), 1.0).unwrap();
        let mut training = ddp.join(Uneven::Stop).unwrap();
        let mut steps = 0;
        while steps < 3 + ctx.rank() * 4 {
            // Its gradient is 1 everywhere.
            let loss = weight.sum_all().unwrap();
            if !training.backward_step(&mut optimizer, &loss).unwrap() {
                break;
            }
            steps += 1;
        }
        training.finish().unwrap();
        assert_eq!((steps, ddp.vars()[0].to_vec1::<f64>().unwrap()), (3, vec![-3.0]));
    });
}

fn buffers_of_those_who_have_batches_reach_all(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, norm) = DistributedDataParallel::new(&group, &variables, DType::F32, |vb| {
            batch_norm(3, BatchNormConfig::default(), vb)
        })
        .unwrap();
        let mut optimizer = SGD::new(ddp.vars(), 0.1).unwrap();
        let mut training = ddp.join(Uneven::DivideByLive).unwrap();
        for step in 0..1 + ctx.rank() * 3 {
            let numbers = (0..24).map(|at| (at * 7 % 11 + ctx.rank() * 5 + step) as f32).collect();
            let x = Tensor::from_vec(numbers, (4, 3, 2), &Device::Cpu).unwrap();
            let loss = norm.forward_t(&x, true).unwrap().sqr().unwrap().mean_all().unwrap();
            training.backward_step(&mut optimizer, &loss).unwrap();
        }
        training.finish().unwrap();
        ddp.verify().unwrap();
        let data = variables.data().lock().unwrap();
        data["running_mean"].to_vec1::<f32>().unwrap()
    });
    assert_eq!(all[0], all[1]);
    assert!(all[0].iter().all(|mean| *mean > 1.0), "{all:?}");
}
