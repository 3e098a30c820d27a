//! What is learned.

use candle_core::{DType, Tensor};
use candle_nn::{AdamW, Module, Optimizer, ParamsAdamW, SGD, VarMap, linear};
use consort::Dtype;
use consort_testkit::{Case, conformance};
use consort_train::candle::{DistributedDataParallel, Options};
use consort_train::{Caps, Cast};

use super::nets::{
    Alone, CONVOLUTION, EXAMPLES, MLP, NORM, Net, RATE, TIED, Task, WORDS, batch, bits, distance,
    loss, meet, numbers, step, tolerance,
};

conformance! { [shm tcp mixed in_process]
    ranks_learn_what_one_process_with_all_their_data_learns
    parts_of_a_batch_add_up_to_the_whole
}
conformance! { [shm in_process]
    numbers_of_every_kind_are_learned
    numbers_of_several_kinds_are_learned_in_one_model
    layers_of_all_kinds_are_learned
    a_variable_with_two_names_is_one_parameter
    what_has_no_part_in_the_loss_stays_as_it_is
    what_some_ranks_use_is_averaged_with_zeroes
    gradients_are_cut_to_the_same_length_everywhere
    an_optimizer_that_remembers_stays_in_step
    gradients_travel_with_fewer_bits_if_asked
    gradients_are_averaged_in_candles_memory_from_any_size_on
}

/// Ten steps, each the same bits on all ranks, and near those of one process.
fn train(group: &consort::Group, task: Task, dtype: DType) -> Vec<Vec<u64>> {
    train_with(group, task, dtype, consort_train::Options::new().caps(Caps::of(300).unwrap()))
}

fn train_with(
    group: &consort::Group,
    task: Task,
    dtype: DType,
    reducer: consort_train::Options,
) -> Vec<Vec<u64>> {
    let options = Options::new().reducer(reducer);
    let variables = VarMap::new();
    let (ddp, net) =
        DistributedDataParallel::with_options(group, &variables, dtype, options, task.build)
            .unwrap();
    let alone = Alone::like(task, &ddp);
    let before = numbers(&ddp.vars());
    let mut all = Vec::new();
    for turn in 0..10 {
        step(&ddp, &net, task, turn);
        alone.step(group.world(), turn);
        let (far, allowed) = (distance(&ddp.vars(), &alone.vars()), tolerance(dtype));
        assert!(far <= allowed, "{}, {dtype:?}, step {turn}: {far} apart", task.name);
        ddp.verify().unwrap();
        all.push(bits(&ddp.vars()));
    }
    let changed = before.iter().zip(numbers(&ddp.vars())).filter(|(a, b)| (*a - b).abs() > 1e-3);
    assert!(changed.count() > before.len() / 4, "{} learns nothing", task.name);
    all
}

fn assert_the_same<T: PartialEq>(all: &[T]) {
    assert!(all.iter().all(|one| *one == all[0]));
}

fn ranks_learn_what_one_process_with_all_their_data_learns(case: Case) {
    let all = case.run(3, |ctx| train(&meet(ctx), MLP, DType::F32));
    assert_the_same(&all);
}

fn numbers_of_every_kind_are_learned(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        [DType::F64, DType::BF16, DType::F16].map(|dtype| train(&group, MLP, dtype))
    });
    assert_the_same(&all);
}

fn layers_of_all_kinds_are_learned(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        [CONVOLUTION, WORDS, NORM, TIED].map(|task| train(&group, task, DType::F32))
    });
    assert_the_same(&all);
}

fn numbers_of_several_kinds_are_learned_in_one_model(case: Case) {
    let task = Task { build: several_kinds, ..MLP };
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, task.build).unwrap();
        let kinds: Vec<DType> = ddp.vars().iter().map(|var| var.dtype()).collect();
        assert_eq!(
            kinds,
            [DType::F32, DType::F32, DType::BF16, DType::BF16, DType::F64, DType::F64]
        );
        let alone = Alone::like(task, &ddp);
        for turn in 0..10 {
            step(&ddp, &net, task, turn);
            alone.step(2, turn);
            assert!(distance(&ddp.vars(), &alone.vars()) <= tolerance(DType::BF16));
        }
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn several_kinds(vb: candle_nn::VarBuilder<'static>) -> candle_core::Result<Net> {
    let first = linear(7, 6, vb.pp("first"))?;
    let second = linear(6, 6, vb.to_dtype(DType::BF16).pp("second"))?;
    let third = linear(6, 4, vb.to_dtype(DType::F64).pp("third"))?;
    Ok(Box::new(move |x| {
        let x = first.forward(x)?.tanh()?.to_dtype(DType::BF16)?;
        let x = second.forward(&x)?.tanh()?.to_dtype(DType::F64)?;
        third.forward(&x)?.to_dtype(DType::F32)
    }))
}

fn parts_of_a_batch_add_up_to_the_whole(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        // In buckets, and in candle's own memory.
        [usize::MAX, 1].map(|adopt| in_parts(&group, consort_train::Options::new().adopt(adopt)))
    });
    assert_the_same(&all);
}

fn in_parts(group: &consort::Group, reducer: consort_train::Options) -> Vec<u64> {
    let (rank, variables) = (group.rank().index(), VarMap::new());
    let options = Options::new().reducer(reducer);
    let (ddp, net) =
        DistributedDataParallel::with_options(group, &variables, DType::F32, options, MLP.build)
            .unwrap();
    let alone = Alone::like(MLP, &ddp);
    let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
    for turn in 0..4 {
        let x = batch(MLP, DType::F32, rank, turn, EXAMPLES).unwrap();
        let part = |at: usize| {
            let part = x.narrow(0, at * 2, 2).unwrap();
            (loss(&net, &part).unwrap() / 3.0).unwrap()
        };
        ddp.backward_local(&part(0)).unwrap();
        ddp.backward_local(&part(1)).unwrap();
        ddp.backward_step(&mut optimizer, &part(2)).unwrap();
        alone.step(2, turn);
        assert!(distance(&ddp.vars(), &alone.vars()) <= tolerance(DType::F32));
    }
    bits(&ddp.vars())
}

fn a_variable_with_two_names_is_one_parameter(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        // The same variable under two names, before the model is built.
        let vb =
            candle_nn::VarBuilder::from_varmap(&variables, DType::F32, &candle_core::Device::Cpu);
        vb.get((7, 7), "one").unwrap();
        let one = variables.data().lock().unwrap()["one"].clone();
        variables.data().lock().unwrap().insert("other".to_owned(), one);
        let build = |vb: candle_nn::VarBuilder<'static>| {
            Ok((vb.get((7, 7), "one")?, vb.get((7, 7), "other")?))
        };
        let (ddp, (one, other)) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        assert_eq!(ddp.vars().len(), 1);
        let x = batch(MLP, DType::F32, group.rank().index(), 0, EXAMPLES).unwrap();
        let loss =
            x.matmul(&one).unwrap().matmul(&other).unwrap().sqr().unwrap().mean_all().unwrap();
        let gradients = ddp.backward(&loss).unwrap();
        // Alone, with the variable itself.
        let x =
            Tensor::cat(&[0, 1].map(|rank| batch(MLP, DType::F32, rank, 0, EXAMPLES).unwrap()), 0);
        let (x, one) = (x.unwrap(), &ddp.vars()[0]);
        let alone = x.matmul(one).unwrap().matmul(one).unwrap().sqr().unwrap().mean_all().unwrap();
        let expected = alone.backward().unwrap().remove(one).unwrap();
        let far = (gradients.get(one).unwrap() - expected).unwrap().abs().unwrap();
        assert!(far.max_all().unwrap().to_scalar::<f32>().unwrap() < 1e-5);
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn what_has_no_part_in_the_loss_stays_as_it_is(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let build = |vb: candle_nn::VarBuilder<'static>| {
            Ok((linear(7, 3, vb.pp("used"))?, linear(7, 3, vb.pp("not"))?))
        };
        let (ddp, (used, _)) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        let before = numbers(&ddp.vars());
        // Its bias is frozen: the optimizer does not know it.
        let mut optimizer =
            SGD::new(vec![ddp.vars()[0].clone(), ddp.vars()[2].clone()], RATE).unwrap();
        for turn in 0..3 {
            let x = batch(MLP, DType::F32, group.rank().index(), turn, EXAMPLES).unwrap();
            let loss = used.forward(&x).unwrap().sqr().unwrap().mean_all().unwrap();
            let gradients = ddp.backward(&loss).unwrap();
            let has: Vec<bool> =
                ddp.vars().iter().map(|var| gradients.get(var).is_some()).collect();
            assert_eq!(has, [true, true, false, false]);
            ddp.step(&mut optimizer, gradients).unwrap();
        }
        let after = numbers(&ddp.vars());
        assert!(before[..21].iter().zip(&after).all(|(before, after)| before != after));
        assert_eq!(before[21..], after[21..]);
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn what_some_ranks_use_is_averaged_with_zeroes(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let build = |vb: candle_nn::VarBuilder<'static>| {
            (0..3)
                .map(|at| vb.get(4, &format!("of rank {at}")))
                .collect::<candle_core::Result<Vec<_>>>()
        };
        let (ddp, mine) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        let rank = group.rank().index();
        for _ in 0..3 {
            let loss = (mine[rank].sum_all().unwrap() * (3 * rank + 3) as f64).unwrap();
            let gradients = ddp.backward(&loss).unwrap();
            for (at, var) in ddp.vars().iter().enumerate() {
                let average = gradients.get(var).unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(average, [(at + 1) as f32; 4]);
            }
        }
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn gradients_are_cut_to_the_same_length_everywhere(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, MLP.build).unwrap();
        let mut told = Vec::new();
        for turn in 0..4 {
            let x = batch(MLP, DType::F32, group.rank().index(), turn, EXAMPLES).unwrap();
            let mut gradients = ddp.backward(&loss(&net, &x).unwrap()).unwrap();
            assert!(gradients.clip_norm(0.0).is_err());
            let norm = gradients.clip_norm(1e3).unwrap();
            assert_eq!(gradients.norm().unwrap(), norm);
            assert_eq!(gradients.clip_norm(norm / 2.0).unwrap(), norm);
            assert!((gradients.norm().unwrap() / norm - 0.5).abs() < 1e-6);
            let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
            ddp.step(&mut optimizer, gradients).unwrap();
            ddp.verify().unwrap();
            told.push(norm.to_bits());
        }
        told
    });
    assert_the_same(&all);
}

fn an_optimizer_that_remembers_stays_in_step(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F64, MLP.build).unwrap();
        let alone = Alone::like(MLP, &ddp);
        let params = ParamsAdamW { lr: 0.01, ..Default::default() };
        let mut optimizer = AdamW::new(ddp.vars(), params.clone()).unwrap();
        let mut other = AdamW::new(alone.vars(), params).unwrap();
        for turn in 0..10 {
            let x = batch(MLP, DType::F64, group.rank().index(), turn, EXAMPLES).unwrap();
            ddp.backward_step(&mut optimizer, &loss(&net, &x).unwrap()).unwrap();
            other.backward_step(&alone.loss(2, turn)).unwrap();
            // What is near zero is divided by its own size.
            assert!(distance(&ddp.vars(), &alone.vars()) <= 1e-9);
        }
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn gradients_travel_with_fewer_bits_if_asked(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let reducer = consort_train::Options::new().hook(Cast::bf16());
        let (variables, options) = (VarMap::new(), Options::new().reducer(reducer));
        let (ddp, net) = DistributedDataParallel::with_options(
            &group,
            &variables,
            DType::F32,
            options,
            MLP.build,
        )
        .unwrap();
        let alone = Alone::like(MLP, &ddp);
        for turn in 0..10 {
            step(&ddp, &net, MLP, turn);
            alone.step(2, turn);
        }
        let far = distance(&ddp.vars(), &alone.vars());
        assert!(far > 0.0 && far <= tolerance(DType::BF16), "{far}");
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn gradients_are_averaged_in_candles_memory_from_any_size_on(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let adopt = |bytes| consort_train::Options::new().adopt(bytes);
        let mut all = Vec::new();
        for task in [MLP, CONVOLUTION, WORDS, NORM, TIED] {
            all.push(train_with(&group, task, DType::F32, adopt(1)));
        }
        for dtype in [DType::F64, DType::BF16, DType::F16] {
            all.push(train_with(&group, MLP, dtype, adopt(1)));
        }
        // Some of them, and with other bits on their way.
        all.push(train_with(&group, MLP, DType::F32, adopt(300)));
        all.push(train_with(&group, MLP, DType::F32, adopt(1).reduce_as(Dtype::F64)));
        all
    });
    assert_the_same(&all);
}
