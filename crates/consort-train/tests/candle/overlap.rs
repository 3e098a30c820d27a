//! When gradients travel.

use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};
use candle_nn::{Module, VarMap, linear};
use consort_testkit::{Case, conformance};
use consort_train::candle::{DistributedDataParallel, Options};
use consort_train::{Bucket, Caps, CommHook, Pending, Round};

use super::nets::{EXAMPLES, MLP, batch, meet};

conformance! { [shm in_process]
    gradients_travel_while_backward_computes_others
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }
}

/// Changes nothing, and notes when backward comes by. What is then noted is of the layer after it.
pub(crate) struct Mark<F>(pub(crate) F);

impl<F: Fn()> CustomOp1 for Mark<F> {
    fn name(&self) -> &'static str {
        "mark"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        assert!(layout.is_contiguous() && layout.start_offset() == 0);
        Ok((storage.clone(), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.0();
        Ok(Some(gradient.clone()))
    }
}

/// Notes which buckets are sent.
struct Noting(Notes);

impl CommHook for Noting {
    fn name(&self) -> &str {
        "noting"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> consort_train::Result<Pending> {
        let names: Vec<&str> = bucket.gradients().map(|it| it.parameter.name()).collect();
        self.0.add(format!("send {}", names.join(" ")));
        round.average(bucket)
    }
}

fn gradients_travel_while_backward_computes_others(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let (variables, notes) = (VarMap::new(), Notes::default());
        let reducer = consort_train::Options::new().hook(Noting(notes.clone()));
        let options = Options::new().reducer(reducer.caps(Caps::of(1).unwrap()));
        let (ddp, layers) =
            DistributedDataParallel::with_options(&group, &variables, DType::F32, options, |vb| {
                (0..3).map(|at| linear(7, 7, vb.pp(at))).collect::<Result<Vec<_>>>()
            })
            .unwrap();
        for turn in 0..2 {
            let mut x = batch(MLP, DType::F32, group.rank().index(), turn, EXAMPLES).unwrap();
            for (at, layer) in layers.iter().enumerate() {
                let notes = notes.clone();
                x = layer.forward(&x).unwrap();
                x = x.apply_op1(Mark(move || notes.add(format!("backward {at}")))).unwrap();
            }
            drop(ddp.backward(&x.sqr().unwrap().mean_all().unwrap()).unwrap());
            notes.add("done".to_owned());
        }
        notes.0.lock().unwrap().clone()
    });
    let pass: Vec<String> = (0..3)
        .rev()
        .flat_map(|at| {
            [format!("backward {at}"), format!("send {at}.bias"), format!("send {at}.weight")]
        })
        .chain(["done".to_owned()])
        .collect();
    assert_eq!(all[0], [pass.clone(), pass].concat());
    assert_eq!(all[0], all[1]);
}
