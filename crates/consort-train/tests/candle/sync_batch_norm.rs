//! Batches that are normalised over all ranks.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{
    BatchNorm, BatchNormConfig, Module, ModuleT, Optimizer, SGD, VarBuilder, VarMap, batch_norm,
    linear,
};
use consort::{ErrorKind, Group};
use consort_testkit::{Case, conformance};
use consort_train::Error;
use consort_train::candle::{DistributedDataParallel, sync_batch_norm};

use super::nets::{EXAMPLES, MLP, Net, RATE, await_all, batch, bits, meet};
use super::overlap::Mark;

conformance! { [shm tcp mixed in_process]
    two_ranks_normalise_as_one_process_with_all_their_examples
}
conformance! { [shm in_process]
    three_ranks_normalise_as_one_process_with_all_their_examples
    ranks_without_examples_take_part
    batches_are_not_centred_if_that_is_not_asked_for
    numbers_of_16_bits_are_normalised_with_more
    a_layer_between_others_is_learned_on_all_ranks
    a_layer_goes_on_with_another_group
    a_group_that_ends_in_a_layer_says_why
    what_cannot_be_normalised_is_refused
}

const FEATURES: usize = 4;

/// The examples of a rank: each place has a number of its own.
fn examples(sizes: &[usize], rank: usize, rest: &[usize], turn: usize, dtype: DType) -> Tensor {
    let before: usize = sizes[..rank].iter().sum();
    let width: usize = FEATURES * rest.iter().product::<usize>();
    let number = |at: usize| {
        let (example, place) = (before + at / width, at % width);
        ((example * 29 + place * 7 + turn * 11) % 37) as f64 / 10.0 + place as f64 * 3.0
    };
    let numbers = (0..sizes[rank] * width).map(number).collect::<Vec<f64>>();
    let shape = [&[sizes[rank], FEATURES], rest].concat();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// A loss of which every place has its own part.
fn loss(y: &Tensor, before: usize) -> Result<Tensor> {
    let width = y.elem_count() / y.dim(0)?.max(1);
    let part = |at: usize| ((before * width + at) * 13 % 31) as f64 / 15.0 - 1.0;
    let parts = Tensor::from_vec((0..y.elem_count()).map(part).collect(), y.shape(), &Device::Cpu)?;
    (y.sqr()? * parts.to_dtype(y.dtype())?)?.sum_all()
}

/// Candle's layer, with what ours has.
struct Alone {
    norm: BatchNorm,
    weight: Var,
    bias: Var,
}

fn alone(dtype: DType, config: BatchNormConfig) -> Alone {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, dtype, &Device::Cpu);
    let norm = batch_norm(FEATURES, config, vb).unwrap();
    let [weight, bias] =
        ["weight", "bias"].map(|name| variables.data().lock().unwrap()[name].clone());
    Alone { norm, weight, bias }
}

fn assert_near(what: &str, one: &Tensor, other: &Tensor) {
    assert_eq!(one.dims(), other.dims(), "{what}");
    if one.elem_count() > 0 {
        let apart = (one - other).unwrap().abs().unwrap().max_all().unwrap();
        let apart = apart.to_dtype(DType::F64).unwrap().to_scalar::<f64>().unwrap();
        let largest = other.abs().unwrap().max_all().unwrap().to_dtype(DType::F64).unwrap();
        let units = if one.dtype() == DType::F64 { 1e-13 } else { 1e-5 };
        let allowed = units * largest.to_scalar::<f64>().unwrap().max(1.0);
        assert!(apart <= allowed, "{what}: {apart} apart\n{one}\n{other}");
    }
}

/// Some steps with batches of these sizes, compared with those of candle's layer on all examples. Gives
/// what the ranks must agree on.
fn compare(
    group: &Group,
    sizes: &[usize],
    rest: &[usize],
    dtype: DType,
    config: BatchNormConfig,
) -> Vec<u64> {
    let (rank, world, variables) = (group.rank().index(), group.world(), VarMap::new());
    // A rank without examples leaves parameters out, and comes to the layer before their gradients go.
    let own = sizes.contains(&0).then(|| group.split(Some(0), 0).unwrap().unwrap());
    let of_norm = own.as_ref().unwrap_or(group);
    let build = |vb: VarBuilder<'static>| sync_batch_norm(FEATURES, config, vb, of_norm);
    let (ddp, norm) = DistributedDataParallel::new(group, &variables, dtype, build).unwrap();
    let alone = alone(dtype, config);
    let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
    // A step alone is by the sum over ranks, and theirs is by the average.
    let vars = vec![alone.weight.clone(), alone.bias.clone()];
    let mut other = SGD::new(vars, RATE / world as f64).unwrap();
    let before: usize = sizes[..rank].iter().sum();
    for turn in 0..3 {
        let all: Vec<Tensor> =
            (0..world).map(|rank| examples(sizes, rank, rest, turn, dtype)).collect();
        let x = Var::from_tensor(&all[rank]).unwrap();
        let joined = Var::from_tensor(&Tensor::cat(&all, 0).unwrap()).unwrap();
        let part = |of_all: &Tensor| of_all.narrow(0, before, sizes[rank]).unwrap();

        let y = norm.forward_t(&x, true).unwrap();
        let expected = alone.norm.forward_t(&joined, true).unwrap();
        assert_near("forward", &y, &part(&expected));
        assert_near("running mean", norm.running_mean(), alone.norm.running_mean());
        assert_near("running variance", norm.running_var(), alone.norm.running_var());

        let gradients = ddp.backward(&loss(&y, before).unwrap()).unwrap();
        let expected = loss(&expected, 0).unwrap().backward().unwrap();
        assert_near("input", gradients.get(&x).unwrap(), &part(expected.get(&joined).unwrap()));
        for (name, mine, its) in
            [("weight", &ddp.vars()[0], &alone.weight), ("bias", &ddp.vars()[1], &alone.bias)]
        {
            let sum = (gradients.get(mine).unwrap() * world as f64).unwrap();
            // The sums are larger than their parts.
            let scale = 0.01;
            let [sum, expected] =
                [&sum, expected.get(its).unwrap()].map(|it| (it * scale).unwrap());
            assert_near(name, &sum, &expected);
        }
        ddp.step(&mut optimizer, gradients).unwrap();
        other.step(&expected).unwrap();
        let [x, joined] = [&x, &joined].map(|x| x.as_detached_tensor());
        let tried = norm.forward_t(&x, false).unwrap();
        assert_near("after", &tried, &part(&alone.norm.forward_t(&joined, false).unwrap()));
    }
    ddp.verify().unwrap();
    let mut all = ddp.vars();
    all.extend(
        ["running_mean", "running_var"].map(|name| variables.data().lock().unwrap()[name].clone()),
    );
    bits(&all)
}

fn assert_the_same(all: &[Vec<u64>]) {
    assert!(all.iter().all(|one| *one == all[0]));
}

fn two_ranks_normalise_as_one_process_with_all_their_examples(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let images = compare(&group, &[3, 5], &[2, 3], DType::F32, 1e-5.into());
        [images, compare(&group, &[6, 1], &[], DType::F64, 1e-3.into())].concat()
    });
    assert_the_same(&all);
}

fn three_ranks_normalise_as_one_process_with_all_their_examples(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        let images = compare(&group, &[2, 7, 3], &[3, 2], DType::F32, 1e-5.into());
        [images, compare(&group, &[1, 1, 1], &[], DType::F32, 1e-5.into())].concat()
    });
    assert_the_same(&all);
}

fn ranks_without_examples_take_part(case: Case) {
    let all = case.run(3, |ctx| compare(&meet(ctx), &[4, 0, 3], &[2], DType::F64, 1e-5.into()));
    assert_the_same(&all);
}

fn batches_are_not_centred_if_that_is_not_asked_for(case: Case) {
    let all = case.run(2, |ctx| {
        let config = BatchNormConfig { remove_mean: false, momentum: 0.3, ..Default::default() };
        compare(&meet(ctx), &[3, 4], &[2], DType::F64, config)
    });
    assert_the_same(&all);
}

fn numbers_of_16_bits_are_normalised_with_more(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let [half, full] = [DType::BF16, DType::F32].map(|dtype| {
            let variables = VarMap::new();
            let build = |vb: VarBuilder<'static>| sync_batch_norm(FEATURES, 1e-5, vb, &group);
            let (ddp, norm) =
                DistributedDataParallel::new(&group, &variables, dtype, build).unwrap();
            let x = examples(&[3, 5], group.rank().index(), &[2], 0, DType::BF16);
            let x = Var::from_tensor(&x.to_dtype(dtype).unwrap()).unwrap();
            let y = norm.forward_t(&x, true).unwrap();
            assert_eq!(y.dtype(), dtype);
            let gradients = ddp.backward(&loss(&y, 0).unwrap()).unwrap();
            let all = [&y, norm.running_var(), gradients.get(&x).unwrap()];
            all.map(|it| it.to_dtype(DType::F32).unwrap().flatten_all().unwrap())
        });
        for (half, full) in half.iter().zip(&full) {
            let largest = full.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            let apart = (half - full).unwrap().abs().unwrap().max_all().unwrap();
            assert!(apart.to_scalar::<f32>().unwrap() <= largest / 32.0, "{half} {full}");
        }
        half[1].to_vec1::<f32>().unwrap().into_iter().map(|it| u64::from(it.to_bits())).collect()
    });
    assert_the_same(&all);
}

/// A layer, one that normalises, and another.
fn net(vb: VarBuilder<'static>, group: &Group) -> Result<Net> {
    let first = linear(7, FEATURES, vb.pp("first"))?;
    let norm = sync_batch_norm(FEATURES, 1e-5, vb.pp("norm"), group)?;
    let last = linear(FEATURES, 3, vb.pp("last"))?;
    Ok(Box::new(move |x| last.forward(&norm.forward_t(&first.forward(x)?, true)?.tanh()?)))
}

fn a_layer_between_others_is_learned_on_all_ranks(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        // A group of its own, so that it does not wait for gradients.
        let own = group.split(Some(0), 0).unwrap().unwrap();
        let variables = VarMap::new();
        let build = |vb: VarBuilder<'static>| net(vb, &own);
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
        let mut losses = Vec::new();
        for _ in 0..20 {
            let x = batch(MLP, DType::F32, ctx.rank() as usize, 0, EXAMPLES).unwrap();
            let loss = (net(&x).unwrap() - 0.5).unwrap().sqr().unwrap().mean_all().unwrap();
            losses.push(loss.to_scalar::<f32>().unwrap());
            ddp.backward_step(&mut optimizer, &loss).unwrap();
            ddp.verify().unwrap();
        }
        assert!(losses[19] < losses[0] / 4.0, "{losses:?}");
        bits(&ddp.vars())
    });
    assert_the_same(&all);
}

fn a_layer_goes_on_with_another_group(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let build = |vb: VarBuilder<'static>| sync_batch_norm(FEATURES, 1e-5, vb, &group);
        let (_, norm) =
            DistributedDataParallel::new(&group, &variables, DType::F64, build).unwrap();
        let x = examples(&[3, 3, 3], ctx.rank() as usize, &[], 0, DType::F64);
        let clone = norm.clone();
        let of_all = clone.forward_t(&x, true).unwrap();
        // Alone, it is candle's.
        let part = group.split(Some(ctx.rank()), 0).unwrap().unwrap();
        norm.set_group(&part);
        let of_one = clone.forward_t(&x, true).unwrap();
        let candles = alone(DType::F64, 1e-5.into()).norm.forward_t(&x, true).unwrap();
        assert_near("alone", &of_one, &candles);
        let apart = (of_all - of_one).unwrap().abs().unwrap().max_all().unwrap();
        assert!(apart.to_scalar::<f64>().unwrap() > 0.01);
    });
}

fn a_group_that_ends_in_a_layer_says_why(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let build = |vb: VarBuilder<'static>| net(vb, &group);
        let (ddp, net) =
            DistributedDataParallel::new(&group, &variables, DType::F32, build).unwrap();
        let x = batch(MLP, DType::F32, ctx.rank() as usize, 0, EXAMPLES).unwrap();
        let (ends, does_it) = (group.clone(), ctx.rank() == 1);
        let mark = Mark(move || {
            if does_it {
                ends.abort("the cook is tired");
            }
        });
        let loss = net(&x).unwrap().apply_op1(mark).unwrap().sqr().unwrap().mean_all().unwrap();
        await_all(&group);
        let error = ddp.backward(&loss).unwrap_err();
        assert!(matches!(error, Error::Group(_)), "{error}");
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        // A forward of candle's can say it in words, and through us as itself.
        let error = Error::from(net(&x).err().unwrap());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        error.to_string()
    });
    assert!(told.iter().all(|words| words.contains("the cook is tired")), "{told:?}");
}

fn what_cannot_be_normalised_is_refused(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let variables = VarMap::new();
        let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        assert!(sync_batch_norm(FEATURES, -1.0, vb.clone(), &group).is_err());
        let norm = sync_batch_norm(FEATURES, 1e-5, vb, &group).unwrap();
        let before = norm.running_var().to_vec1::<f32>().unwrap();
        for shape in [vec![3], vec![2, FEATURES + 1]] {
            let x = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
            for train in [true, false] {
                assert!(norm.forward_t(&x, train).unwrap_err().to_string().contains("4 features"));
            }
        }
        // One example on all ranks has no variance.
        let x = examples(&[1, 0], ctx.rank() as usize, &[], 0, DType::F32);
        let error = norm.forward_t(&x, true).unwrap_err().to_string();
        assert!(error.contains("1 numbers of each feature"), "{error}");
        assert_eq!(norm.running_var().to_vec1::<f32>().unwrap(), before);
    });
}
