//! Models on devices learn what they learn on the host.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Init, ModuleT, Optimizer, SGD, VarBuilder, VarMap};
use consort::Group;
use consort_testkit::ranks;
use consort_train::candle::{DistributedDataParallel, Options, checkpoint, sync_batch_norm};
use consort_train::{Caps, Error, Uneven};

use super::stage::{assert_near, coded, meet, plain};

/// A curve for each place: the loss is how far it is from where a rank wants it.
struct Net {
    weight: Tensor,
    bias: Tensor,
    /// Nobody uses it.
    _idle: Tensor,
}

impl Net {
    fn new(vb: VarBuilder<'static>) -> Result<Self> {
        let get = |name: &str, value| vb.get_with_hints((PLACES, 3), name, Init::Const(value));
        Ok(Self { weight: get("weight", 0.5)?, bias: get("bias", 0.25)?, _idle: get("idle", 7.0)? })
    }

    fn loss(&self, rank: usize, turn: usize) -> Result<Tensor> {
        let on = self.weight.device();
        let x = (coded(rank + 3 * turn, &[PLACES, 3], on) / 64.0)?;
        let y = (coded(rank + 7 * turn + 1, &[PLACES, 3], on) / 64.0)?;
        ((&self.weight * x)? + &self.bias)?.sub(&y)?.sqr()?.sum_all()? / (3 * PLACES) as f64
    }
}

fn build(group: &Group, on: &Device) -> (DistributedDataParallel, Net, VarMap) {
    let variables = VarMap::new();
    // Several buckets.
    let reducer = consort_train::Options::new().caps(Caps::of(300).unwrap());
    let options = Options::new().reducer(reducer).device(on);
    let (ddp, net) =
        DistributedDataParallel::with_options(group, &variables, DType::F32, options, Net::new)
            .unwrap();
    (ddp, net, variables)
}

/// All parameters, one behind the other.
fn parameters(ddp: &DistributedDataParallel) -> Vec<f64> {
    ddp.vars().iter().flat_map(|variable| plain(variable)).collect()
}

mod ranks_learn_on_devices_what_they_learn_on_the_host {
    use consort_testkit::ranks;

    #[test]
    fn alone() {
        ranks(1, |ctx| super::compare_training(&super::meet(ctx)));
    }

    #[test]
    fn together() {
        ranks(3, |ctx| super::compare_training(&super::meet(ctx)));
    }

    #[test]
    fn in_streams_of_their_own() {
        ranks(2, |ctx| {
            let (group, _) = super::meet(ctx);
            let device = super::Device::new_cuda_with_stream(group.local_rank()).unwrap();
            super::compare_training(&(group, device));
        });
    }
}

fn compare_training((group, device): &(Group, Device)) {
    let train = |on: &Device| {
        let (ddp, net, _) = build(group, on);
        assert_eq!(ddp.reducer().device().is_some(), on.is_cuda());
        let mut optimizer = SGD::new(ddp.vars(), 0.5).unwrap();
        let mut all = vec![parameters(&ddp)];
        for turn in 0..5 {
            let loss = net.loss(group.rank().index(), turn).unwrap();
            let mut gradients = ddp.backward(&loss).unwrap();
            let some = gradients.get(&ddp.vars()[0]).unwrap();
            assert!(some.device().same_device(on));
            assert!(gradients.get(&ddp.vars()[2]).is_none(), "nobody uses it");
            let norm = gradients.clip_norm(0.01).unwrap();
            assert!(norm > 0.01 && (gradients.norm().unwrap() - 0.01).abs() < 1e-5);
            ddp.step(&mut optimizer, gradients).unwrap();
            ddp.verify().unwrap();
            all.push(parameters(&ddp));
        }
        assert_ne!(all[0], all[5]);
        all.concat()
    };
    assert_near(&train(device), &train(&Device::Cpu));
}

#[test]
fn ranks_begin_with_the_parameters_of_rank_0_and_files_keep_them() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let (ddp, net, _) = build(&group, &device);
        for (at, variable) in ddp.vars().iter().enumerate() {
            variable.set(&coded(ctx.rank() as usize + at, &[PLACES, 3], &device)).unwrap();
        }
        // The model knows nothing of it.
        let error = ddp.backward(&net.loss(0, 0).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Stale { .. }), "{error}");
        ddp.broadcast(1).unwrap();
        let expected = |at: usize| plain(&coded(1 + at, &[PLACES, 3], &Device::Cpu));
        assert_eq!(parameters(&ddp), (0..3).flat_map(expected).collect::<Vec<_>>());
        assert_eq!(plain(&net.weight), expected(0));

        let path = ctx.dir().join("model.safetensors");
        checkpoint::save_with(&ddp, &path, [("turn", "3")]).unwrap();
        let (other, other_net, _) = build(&group, &device);
        let notes = checkpoint::load(&other, &path).unwrap();
        assert_eq!((parameters(&other), &notes["turn"][..]), (parameters(&ddp), "3"));
        assert_eq!(plain(&other_net.bias), expected(1));
        // The host reads it, too.
        let (host, _, _) = build(&group, &Device::Cpu);
        checkpoint::load(&host, &path).unwrap();
        assert_eq!(parameters(&host), parameters(&ddp));
    });
}

#[test]
fn ranks_with_fewer_batches_take_part_in_the_steps_of_the_others() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let train = |on: &Device| {
            let (ddp, net, _) = build(&group, on);
            let mut optimizer = SGD::new(ddp.vars(), 0.5).unwrap();
            let mut training = ddp.join(Uneven::DivideByWorld).unwrap();
            for turn in 0..2 + group.rank().index() {
                let loss = net.loss(group.rank().index(), turn).unwrap();
                assert!(training.backward_step(&mut optimizer, &loss).unwrap());
            }
            training.finish().unwrap();
            ddp.verify().unwrap();
            parameters(&ddp)
        };
        assert_near(&train(&device), &train(&Device::Cpu));
    });
}

#[test]
fn batches_of_all_ranks_are_normalised_together() {
    ranks(2, |ctx| {
        let (group, device) = meet(ctx);
        let train = |on: &Device| {
            let of_norms = group.split(Some(0), 0).unwrap().unwrap();
            let options = Options::new().device(on);
            let (ddp, norm) = DistributedDataParallel::with_options(
                &group,
                &VarMap::new(),
                DType::F32,
                options,
                |vb| sync_batch_norm(3, 1e-5, vb.pp("norm"), &of_norms),
            )
            .unwrap();
            let mut optimizer = SGD::new(ddp.vars(), 0.1).unwrap();
            for turn in 0..3 {
                let x = (coded(group.rank().index() + turn, &[6, 3], on) / 32.0).unwrap();
                let y = norm.forward_t(&x, true).unwrap();
                let wanted = coded(group.rank().index() + 9, &[6, 3], on);
                let loss = (y * wanted).unwrap().sum_all().unwrap();
                ddp.backward_step(&mut optimizer, &loss).unwrap();
            }
            assert!(norm.running_mean().device().same_device(on));
            [parameters(&ddp), plain(norm.running_mean()), plain(norm.running_var())].concat()
        };
        assert_near(&train(&device), &train(&Device::Cpu));
    });
}

#[test]
fn what_devices_do_not_do_is_refused_with_a_reason() {
    ranks(1, |ctx| {
        let (group, device) = meet(ctx);
        let (ddp, net, variables) = build(&group, &device);
        let error = ddp.backward_local(&net.loss(0, 0).unwrap()).unwrap_err();
        assert!(error.to_string().contains("not added up in the memory of device 0"), "{error}");
        // The variables are elsewhere.
        let again = DistributedDataParallel::new(&group, &variables, DType::F32, Net::new);
        let error = again.map(drop).unwrap_err().to_string();
        assert!(error.contains("Options::device"), "{error}");
        ddp.backward(&net.loss(0, 0).unwrap()).map(drop).unwrap();
    });
}

const PLACES: usize = 41;
