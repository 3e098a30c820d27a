//! What is not learned, and yet changes.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{
    BatchNorm, Init, Linear, Module, ModuleT, Optimizer, SGD, VarBuilder, VarMap, batch_norm,
    linear,
};
use consort_testkit::{Case, conformance};
use consort_train::candle::{Buffers, DistributedDataParallel, Options};

use super::nets::{EXAMPLES, MLP, batch, bits, meet, numbers};

conformance! { [shm in_process]
    all_begin_with_what_rank_0_has
    statistics_stay_in_the_map_and_are_those_of_rank_0
    statistics_are_averaged_if_asked
    statistics_are_every_ranks_own_if_asked
}

/// A layer, and one that keeps statistics.
fn build(vb: VarBuilder<'static>) -> Result<(Linear, BatchNorm)> {
    // One of whole numbers, as others count batches.
    vb.to_dtype(DType::I64).get_with_hints(1, "count", Init::Const(0.0))?;
    Ok((linear(7, 5, vb.pp("layer"))?, batch_norm(5, 1e-5, vb.pp("norm"))?))
}

fn named(variables: &VarMap, name: &str) -> Var {
    variables.data().lock().unwrap()[name].clone()
}

/// Two steps, the second of which changes statistics last. Gives them as they were before ranks spoke
/// of them, and as they are at the end.
fn train(group: &consort::Group, buffers: Buffers) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let variables = VarMap::new();
    let options = Options::new().buffers(buffers);
    let (ddp, (layer, norm)) =
        DistributedDataParallel::with_options(group, &variables, DType::F32, options, build)
            .unwrap();
    let parameters = ddp.reducer().parameters().iter().map(|it| it.name().to_owned());
    let parameters: Vec<String> = parameters.collect();
    assert_eq!(parameters, ["layer.weight", "layer.bias", "norm.weight", "norm.bias"]);
    let buffers = ["norm.running_mean", "norm.running_var"].map(|name| named(&variables, name));
    let count = named(&variables, "count");
    let mut before = Vec::new();
    let mut optimizer = SGD::new(ddp.vars(), 0.1).unwrap();
    for turn in 0..2 {
        let x = batch(MLP, DType::F32, group.rank().index(), turn, EXAMPLES).unwrap();
        let x = norm.forward_t(&layer.forward(&x).unwrap(), true).unwrap();
        let loss = x.sqr().unwrap().mean_all().unwrap();
        count.set(&Tensor::new(&[group.rank().get() as i64 + 5], &Device::Cpu).unwrap()).unwrap();
        before = numbers(&buffers);
        ddp.backward_step(&mut optimizer, &loss).unwrap();
        ddp.verify().unwrap();
    }
    assert!(before.iter().all(|number| ![0.0, 1.0].contains(number)), "{before:?}");
    (before, numbers(&buffers), numbers(&[count]))
}

fn all_begin_with_what_rank_0_has(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        // Rank 0 has statistics from elsewhere.
        let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        let init = Init::Const(f64::from(10 - ctx.rank()));
        vb.get_with_hints(5, "norm.running_var", init).unwrap();
        let (ddp, (layer, _)) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        // What the model computes with is what the variables are.
        let weight = Var::from_tensor(layer.weight()).unwrap();
        assert_eq!(bits(&[weight]), bits(&ddp.vars()[..1]));
        let statistics = [named(&variables, "norm.running_var")];
        assert_eq!(numbers(&statistics), [10.0; 5]);
        ddp.verify().unwrap();
        bits(&ddp.vars())
    });
    assert!(all.iter().all(|one| *one == all[0]));
}

fn statistics_stay_in_the_map_and_are_those_of_rank_0(case: Case) {
    let all = case.run(3, |ctx| train(&meet(ctx), Buffers::FromRankZero));
    assert!(all[0].0 != all[1].0 && all[1].0 != all[2].0, "{all:?}");
    for (_, after, count) in &all {
        assert_eq!(*after, all[0].0);
        assert_eq!(*count, [5.0]);
    }
}

fn statistics_are_averaged_if_asked(case: Case) {
    let all = case.run(2, |ctx| train(&meet(ctx), Buffers::Averaged));
    assert!(all[0].0 != all[1].0, "{all:?}");
    let average = all[0].0.iter().zip(&all[1].0).map(|(a, b)| (a + b) / 2.0);
    let average: Vec<f64> = average.collect();
    for (_, after, count) in &all {
        assert!(after.iter().zip(&average).all(|(a, b)| (a - b).abs() < 1e-6), "{all:?}");
        assert_eq!(after, &all[0].1);
        assert_eq!(*count, [5.0]);
    }
}

fn statistics_are_every_ranks_own_if_asked(case: Case) {
    let all = case.run(2, |ctx| train(&meet(ctx), Buffers::Apart));
    assert!(all[0].1 != all[1].1, "{all:?}");
    for (rank, (before, after, count)) in all.iter().enumerate() {
        assert_eq!(after, before);
        assert_eq!(*count, [rank as f64 + 5.0]);
    }
}
