//! Calls that make no sense, and ranks that do not do the same.

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Shape, Tensor};
use candle_nn::{Optimizer, SGD, VarBuilder, VarMap, linear};
use consort::ErrorKind;
use consort_testkit::{Case, conformance};
use consort_train::candle::{DistributedDataParallel, Options};
use consort_train::{Error, Unused};

use super::nets::{EXAMPLES, MLP, RATE, await_all, batch, bits, loss, meet, step};

conformance! { [shm in_process]
    a_model_that_one_rank_cannot_build_is_given_up_by_all
    ranks_with_different_models_are_all_shown_both
    parameters_that_are_not_the_same_are_named_on_every_rank
    a_parameter_without_a_gradient_is_named_if_that_is_refused
    a_loss_that_cannot_be_differentiated_leaves_all_as_it_was
}
conformance! { [in_process]
    a_step_that_the_model_does_not_know_of_is_not_taken_for_good
    a_backward_that_nobody_listens_to_is_refused
    what_cannot_be_trained_is_refused
}

fn a_step_that_the_model_does_not_know_of_is_not_taken_for_good(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        let x = batch(MLP, DType::F32, ctx.rank() as usize, 0, EXAMPLES).unwrap();
        let of_x = || loss(&net, &x).unwrap();
        let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
        let gradients = ddp.backward(&of_x()).unwrap();
        // The optimizer is called behind its back.
        optimizer.step(gradients.store()).unwrap();
        for error in [ddp.backward(&of_x()).unwrap_err(), ddp.backward_local(&of_x()).unwrap_err()]
        {
            assert!(matches!(&error, Error::Stale { name } if name == "first.weight"), "{error}");
            let words = error.to_string();
            assert!(words.contains("refresh") && words.contains("backward_step"), "{words}");
        }
        ddp.refresh().unwrap();
        let before = loss(&net, &x).unwrap().to_scalar::<f32>().unwrap();
        ddp.backward_step(&mut optimizer, &of_x()).unwrap();
        assert!(loss(&net, &x).unwrap().to_scalar::<f32>().unwrap() < before);
        ddp.verify().unwrap();
    });
}

fn a_backward_that_nobody_listens_to_is_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        let x = batch(MLP, DType::F32, 0, 0, EXAMPLES).unwrap();
        let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
        let loss = loss(&net, &x).unwrap();
        for error in [loss.backward().unwrap_err(), optimizer.backward_step(&loss).unwrap_err()] {
            let words = error.to_string();
            assert!(words.contains("\"last.bias\"") && words.contains("backward_step"), "{words}");
        }
        step(&ddp, &net, MLP, 1);
    });
}

fn what_cannot_be_trained_is_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let new = |build: fn(VarBuilder<'static>) -> candle_core::Result<Tensor>| {
            let made = DistributedDataParallel::new(&group, &variables, DType::F32, build);
            made.map(|_| ()).unwrap_err().to_string()
        };
        let elsewhere = new(|_| Tensor::new(&[1.0_f32], &Device::Cpu));
        assert!(elsewhere.contains("asked for no parameter"), "{elsewhere}");
        let without_shape = new(|vb| vb.get_unchecked("w"));
        assert!(
            without_shape.contains("\"w\"") && without_shape.contains("shape"),
            "{without_shape}"
        );
        let reshaped = new(|vb| vb.get(3, "w").and_then(|_| vb.get(4, "w")));
        assert!(reshaped.contains("[4]") && reshaped.contains("[3]"), "{reshaped}");
        let tiny = new(|vb| vb.to_dtype(DType::F8E4M3).get(2, "tiny"));
        assert!(tiny.contains("\"tiny\"") && tiny.contains("f8e4m3"), "{tiny}");
        // One that is asked for too late.
        let keep = |vb: VarBuilder<'static>| Ok((vb.get(3, "w")?, vb));
        let (_, (w, vb)) =
            DistributedDataParallel::new(&group, &variables, DType::F32, keep).unwrap();
        assert_eq!(vb.get(3, "w").unwrap().id(), w.id());
        assert_eq!(vb.get_unchecked("w").unwrap().id(), w.id());
        let late = vb.get(3, "late").unwrap_err().to_string();
        assert!(late.contains("\"late\"") && !vb.contains_tensor("late"), "{late}");
        group.barrier().unwrap();
    });
}

fn a_model_that_one_rank_cannot_build_is_given_up_by_all(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let odd = ctx.rank() == 1;
        let build = |vb: VarBuilder<'static>| match odd {
            true => candle_core::bail!("there is no such file"),
            false => linear(2, 3, vb),
        };
        let error =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap_err();
        assert_eq!(matches!(error, Error::Elsewhere { rank: 1, .. }), !odd, "{error}");
        // The group goes on.
        let made = DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build);
        step(&made.as_ref().unwrap().0, &made.as_ref().unwrap().1, MLP, 0);
        error.to_string()
    });
    assert!(told.iter().all(|words| words.contains("there is no such file")), "{told:?}");
    assert!(told[0] == told[2] && told[0].contains("rank 1 cannot build the model"), "{told:?}");
}

fn ranks_with_different_models_are_all_shown_both(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let odd = ctx.rank() == 2;
        let mut told = Vec::new();
        let mut refuse = |build: &dyn Fn(VarBuilder<'static>) -> candle_core::Result<Tensor>| {
            let variables = VarMap::new();
            let made = DistributedDataParallel::new(&group, &variables, DType::F32, build);
            let error = made.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            told.push(error.to_string());
        };
        refuse(&|vb| vb.get(if odd { 4 } else { 3 }, "w"));
        refuse(&|vb| {
            vb.get(2, if odd { "a.running_mean" } else { "b.running_mean" })?;
            vb.get(3, "w")
        });
        refuse(&|vb| {
            if odd {
                vb.get(2, "running_mean")?;
            }
            vb.get(3, "w")
        });
        told
    });
    assert!(told.iter().all(|all| *all == told[0]), "{told:?}");
    for (text, part) in told[0].iter().zip([
        "rank 0 has \"w\", f32 [3] with strides [1], rank 2 has \"w\", f32 [4]",
        "rank 0 has buffer \"b.running_mean\", f32 [2], rank 2 has buffer \"a.running_mean\"",
        "rank 0 has nothing more, rank 2 has buffer \"running_mean\"",
    ]) {
        assert!(text.contains(part) && !text.contains("rank 1"), "{text}");
    }
}

fn parameters_that_are_not_the_same_are_named_on_every_rank(case: Case) {
    let told = case.run(4, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        ddp.verify().unwrap();
        if [1, 3].contains(&ctx.rank()) {
            // The last bit of one number in the third parameter.
            let var = &ddp.vars()[2];
            let mut numbers = var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            numbers[17] = f32::from_bits(numbers[17].to_bits() ^ ctx.rank());
            var.set(&Tensor::from_vec(numbers, var.shape(), &Device::Cpu).unwrap()).unwrap();
        }
        let error = ddp.verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(matches!(&error, Error::Diverged { name, .. } if name == "last.weight"), "{error}");
        ddp.broadcast(3).unwrap();
        ddp.verify().unwrap();
        step(&ddp, &net, MLP, 0);
        (error.to_string(), bits(&ddp.vars()))
    });
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    assert!(told[0].0.contains("0, 2 / 1 / 3"), "{told:?}");
}

fn a_parameter_without_a_gradient_is_named_if_that_is_refused(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let reducer = consort_train::Options::new().unused(Unused::Refuse);
        let options = Options::new().reducer(reducer);
        let build = |vb: VarBuilder<'static>| Ok((vb.get(3, "used")?, vb.get(3, "forgotten")?));
        let (ddp, (used, _)) =
            DistributedDataParallel::with_options(&group, &variables, DType::F32, options, build)
                .unwrap();
        await_all(&group);
        await_all(&group);
        let error = ddp.backward(&used.sum_all().unwrap()).unwrap_err();
        error.to_string()
    });
    assert!(told.iter().all(|text| text.contains("\"forgotten\"")), "{told:?}");
}

fn a_loss_that_cannot_be_differentiated_leaves_all_as_it_was(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        let x = batch(MLP, DType::F32, 0, 0, EXAMPLES).unwrap();
        for turn in 0..3 {
            let odd = loss(&net, &x).unwrap().apply_op1(NoBackward).unwrap();
            let error = ddp.backward(&odd).unwrap_err();
            assert!(matches!(error, Error::Candle(_)), "{error}");
            assert!(error.to_string().contains("no-backward"), "{error}");
            step(&ddp, &net, MLP, turn);
        }
        ddp.verify().unwrap();
    });
}

/// An operation that nobody can differentiate.
struct NoBackward;

impl CustomOp1 for NoBackward {
    fn name(&self) -> &'static str {
        "no-backward"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((storage.clone(), layout.shape().clone()))
    }
}
