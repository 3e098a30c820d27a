//! Gradients of variables that travel while backward goes on.

use std::cell::RefCell;
use std::collections::HashSet;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, TensorId};

use super::Pending;
use crate::error::Result;

/// As `loss.backward()`, with gradients that travel while backward goes on.
///
/// Candle cannot go on without the gradient of a tensor that was computed from others, so the backward of a
/// call waits for it. That of a variable is needed by nobody before the end: where a variable itself was
/// given to a call, as in fully sharded training where the whole of a layer is gathered from the shards of
/// all ranks, its gradient is on its way while backward goes on with the layers before. Here all that is on
/// its way is waited for at the end.
///
/// ```
/// use candle_core::{Device, Var};
/// use consort_train::candle::functional::{all_gather, backward};
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let shard = Var::new(&[1_f32, 2.0], &Device::Cpu)?;
/// let weights = all_gather(&shard, 0, &group)?;
/// let loss = weights.get()?.sqr()?.sum_all()?;
/// let gradients = backward(&loss)?;
/// assert_eq!(gradients.get(&shard).unwrap().to_vec1::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// Gradients are candle's, but for rounding where a variable has some of both kinds: those that were on their way
/// are added last.
///
/// # Errors
/// Those of candle, and why a call has failed.
pub fn backward(loss: &Tensor) -> Result<GradStore> {
    let collection = Collection::begin(loss);
    let done = loss.backward();
    let deferred = collection.end();
    let mut gradients = done?;
    for (variable, gradient) in deferred {
        let gradient = gradient.wait()?;
        let sum = match gradients.remove(&variable) {
            Some(others) => (others + gradient)?,
            None => gradient,
        };
        gradients.insert(&variable, sum);
    }
    Ok(gradients)
}

/// Leaves the gradient of a variable `x`, from which `y` has come, to whoever collects it on this thread. Gives
/// it back if nobody does.
pub(super) fn defer(x: &Tensor, y: &Tensor, gradient: Pending) -> Option<Pending> {
    COLLECTION.with_borrow_mut(|collection| match collection {
        Some(under_way) if x.is_variable() && under_way.nodes.contains(&y.id()) => {
            under_way.gradients.push((x.clone(), gradient));
            None
        }
        _ => Some(gradient),
    })
}

type Gradients = Vec<(Tensor, Pending)>;

/// A backward, and the gradients that are on their way in it.
struct UnderWay {
    /// All that its loss was computed from. What is not among it belongs to another backward, within this
    /// one.
    nodes: HashSet<TensorId>,
    gradients: Gradients,
}

thread_local! {
    static COLLECTION: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
}

/// While it is there, gradients are collected. One within another has those of its own.
struct Collection {
    outer: Option<UnderWay>,
}

impl Collection {
    fn begin(loss: &Tensor) -> Self {
        let nodes = loss.sorted_nodes().into_iter().map(Tensor::id).collect();
        Self { outer: COLLECTION.replace(Some(UnderWay { nodes, gradients: Vec::new() })) }
    }

    /// What was collected.
    fn end(self) -> Gradients {
        COLLECTION.take().map_or_else(Vec::new, |under_way| under_way.gradients)
    }
}

impl Drop for Collection {
    /// Also when backward panics.
    fn drop(&mut self) {
        COLLECTION.replace(self.outer.take());
    }
}
