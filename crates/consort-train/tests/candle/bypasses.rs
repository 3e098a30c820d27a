//! Gradients that come by other ways than from the loss through the model, and backwards that fail on the
//! way.

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};
use consort::{ErrorKind, Group};
use consort_testkit::{Case, conformance};
use consort_train::candle::{DistributedDataParallel, Options};
use consort_train::{Caps, Error};

use super::nets::{await_all, meet};

conformance! { [shm in_process]
    a_penalty_on_the_variable_itself_is_refused_by_name_on_every_rank
    a_backward_that_fails_when_buckets_have_gone_says_why_on_every_rank
}
conformance! { [in_process]
    a_loss_of_nothing_but_variables_leaves_all_as_it_was
    a_penalty_on_what_the_model_was_given_is_averaged
    a_backward_within_backward_is_refused_and_leaves_all_as_it_was
    a_backward_within_backward_may_have_copies
}

type Weights = (Tensor, Tensor);

/// Two parameters, by default in one bucket.
fn build(group: &Group, reducer: consort_train::Options) -> (DistributedDataParallel, Weights) {
    let options = Options::new().reducer(reducer);
    let build = |vb: VarBuilder<'static>| Ok((vb.get(3, "first")?, vb.get(3, "second")?));
    let variables = VarMap::new();
    DistributedDataParallel::with_options(group, &variables, DType::F32, options, build).unwrap()
}

/// Each in a bucket of its own.
fn in_two() -> consort_train::Options {
    consort_train::Options::new().caps(Caps::of(1).unwrap())
}

/// A loss of both, whose gradients are other ones on each rank.
fn loss((first, second): &Weights, group: &Group) -> Result<Tensor> {
    let factor = f64::from(group.rank().get() + 1);
    (first.sum_all()? * factor)? + (second.sum_all()? * (10.0 * factor))?
}

/// Looks at the averages of two ranks.
fn check(ddp: &DistributedDataParallel, loss: &Tensor) {
    let gradients = ddp.backward(loss).unwrap();
    let of = |at: usize| gradients.get(&ddp.vars()[at]).unwrap().to_vec1::<f32>().unwrap();
    assert_eq!((of(0), of(1)), (vec![1.5; 3], vec![15.0; 3]));
}

fn a_penalty_on_the_variable_itself_is_refused_by_name_on_every_rank(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let (ddp, weights) = build(&group, in_two());
        drop(ddp.backward(&loss(&weights, &group).unwrap()).unwrap());
        let mut odd = loss(&weights, &group).unwrap();
        if ctx.rank() == 1 {
            odd = (odd + ddp.vars()[1].sqr().unwrap().sum_all().unwrap()).unwrap();
        }
        await_all(&group);
        let error = ddp.backward(&odd).unwrap_err();
        if ctx.rank() == 1 {
            assert!(matches!(&error, Error::Bypassed { name } if name == "second"), "{error}");
            assert_eq!(error.kind(), ErrorKind::Mistake);
        } else {
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        }
        error.to_string()
    });
    for words in told {
        assert!(words.contains("\"second\"") && words.contains("not with the Var"), "{words}");
    }
}

fn a_loss_of_nothing_but_variables_leaves_all_as_it_was(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (ddp, weights) = build(&group, in_two());
        let odd = ddp.vars()[0].sqr().unwrap().sum_all().unwrap();
        for error in [ddp.backward(&odd).unwrap_err(), ddp.backward_local(&odd).unwrap_err()] {
            assert!(matches!(&error, Error::Bypassed { name } if name == "first"), "{error}");
        }
        check(&ddp, &loss(&weights, &group).unwrap());
    });
}

fn a_penalty_on_what_the_model_was_given_is_averaged(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (ddp, weights) = build(&group, in_two());
        let two = weights.0.ones_like().unwrap().affine(2.0, 0.0).unwrap();
        ddp.vars()[0].set(&two).unwrap();
        ddp.refresh().unwrap();
        // On one rank only.
        let factor = f64::from(ctx.rank());
        let penalty = (weights.0.sqr().unwrap().sum_all().unwrap() * factor).unwrap();
        let whole = (loss(&weights, &group).unwrap() + penalty).unwrap();
        let gradients = ddp.backward(&whole).unwrap();
        let found = gradients.get(&ddp.vars()[0]).unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(found, [(1.0 + (2.0 + 4.0)) / 2.0; 3]);
    });
}

fn a_backward_that_fails_when_buckets_have_gone_says_why_on_every_rank(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let (ddp, (first, second)) = build(&group, in_two());
        // After the first pass buckets go in the order of the backward, in which the second comes first.
        let chain = |is_odd: bool| {
            let act = move || match is_odd {
                true => candle_core::bail!("there is no water in the pool"),
                false => Ok(()),
            };
            ((first.apply_op1(Within(act))? + 1.0)? * &second)?.sum_all()
        };
        drop(ddp.backward(&chain(false).unwrap()).unwrap());
        drop(ddp.backward(&chain(false).unwrap()).unwrap());
        await_all(&group);
        let error = ddp.backward(&chain(ctx.rank() == 1).unwrap()).unwrap_err();
        let kind = if ctx.rank() == 1 { ErrorKind::Mistake } else { ErrorKind::Aborted };
        assert_eq!(error.kind(), kind, "{error}");
        error.to_string()
    });
    assert!(told.iter().all(|words| words.contains("no water in the pool")), "{told:?}");
}

fn a_backward_within_backward_is_refused_and_leaves_all_as_it_was(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // In one bucket, so that nothing has gone when the second of two comes.
        let usual = consort_train::Options::new;
        for options in [usual(), usual().static_graph()] {
            let (ddp, weights) = build(&group, options);
            let refuse = |outer: Tensor, inner: Tensor, with: fn(&Inner, &Tensor) -> Result<()>| {
                let by = Inner { ddp: ddp.clone() };
                let odd = outer.apply_op1(Within(move || with(&by, &inner))).unwrap();
                ddp.backward(&odd).unwrap_err().to_string()
            };
            let of_both = || loss(&weights, &group).unwrap();
            let of_first = || weights.0.sum_all().unwrap();
            let of_second = || weights.1.sqr().unwrap().sum_all().unwrap();
            // One that the loss has, too; one that it does not have; and one that asks properly.
            let words = refuse(of_both(), of_second(), Inner::behind_its_back);
            assert!(words.contains("\"second\"") && words.contains("within"), "{words}");
            let words = refuse(of_first(), of_second(), Inner::behind_its_back);
            assert!(words.contains("\"second\"") && words.contains("within"), "{words}");
            let words = refuse(of_both(), of_second(), Inner::properly);
            assert!(words.contains("one backward pass is reduced after the other"), "{words}");
            let words = refuse(of_both(), of_second(), Inner::locally);
            assert!(words.contains("one backward pass is reduced after the other"), "{words}");
            check(&ddp, &of_both());
            check(&ddp, &of_both());
        }
    });
}

fn a_backward_within_backward_may_have_copies(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (ddp, weights) = build(&group, in_two());
        let second = weights.1.detach();
        let inner = move || {
            let copy = Var::from_tensor(&second)?;
            let gradients = copy.sqr()?.sum_all()?.backward()?;
            assert!(gradients.get(&copy).is_some());
            Ok(())
        };
        let whole = loss(&weights, &group).unwrap().apply_op1(Within(inner)).unwrap();
        check(&ddp, &whole);
    });
}

/// How something is differentiated in the backward of something else.
struct Inner {
    ddp: DistributedDataParallel,
}

impl Inner {
    fn behind_its_back(&self, loss: &Tensor) -> Result<()> {
        loss.backward().map(drop)
    }

    fn properly(&self, loss: &Tensor) -> Result<()> {
        self.ddp.backward(loss).map(drop).map_err(candle_core::Error::wrap)
    }

    fn locally(&self, loss: &Tensor) -> Result<()> {
        self.ddp.backward_local(loss).map_err(candle_core::Error::wrap)
    }
}

/// An operation that changes nothing, and does something in its backward.
struct Within<F>(F);

impl<F: Fn() -> Result<()> + Send + Sync> CustomOp1 for Within<F> {
    fn name(&self) -> &'static str {
        "within"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((storage.clone(), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.0()?;
        Ok(Some(gradient.clone()))
    }
}
