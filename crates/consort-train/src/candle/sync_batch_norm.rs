//! Batch normalisation over the batches of all ranks.

mod moments;

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{
    Context, CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, Var, WithDType,
    bail,
};
use candle_nn::{BatchNormConfig, Init, ModuleT, VarBuilder};
use consort::symm::Plain;
use consort::{Group, ReduceOp};

use self::moments::{Moments, Scale, sums};
use crate::candle::numbers::with_bytes;

/// A `BatchNorm` whose batch is that of all ranks: what it computes, learns and remembers is what candle's
/// would with all their examples. It is for models whose batches are too small on each rank to tell
/// anything of the whole.
///
/// Ranks may have different numbers of examples, even none. In training each forward gathers a few numbers
/// of each feature, and each backward adds up two; so all ranks have to call both, in the same order, and
/// what the layer gives has to have a part in the loss on every rank.
///
/// Its rows are normalised on the host. Those of a CUDA device are copied there and back, forward and backward:
/// it is right, and slow.
///
/// Give it another group than the gradients have, which all such layers of a model may share. In the same
/// one its calls wait for gradients that are on their way, and fail if ranks come to them in different
/// orders, as they do where candle leaves out parameters because there is no example.
///
/// Its variables have the names of candle's layer, so either reads the other's files.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{ModuleT, VarMap};
/// use consort_train::candle::{DistributedDataParallel, sync_batch_norm};
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let of_norms = group.split(Some(0), 0)?.expect("all ranks are in it");
/// let variables = VarMap::new();
/// let (ddp, norm) = DistributedDataParallel::new(&group, &variables, DType::F32, |vb| {
///     sync_batch_norm(2, 1e-5, vb.pp("norm"), &of_norms)
/// })?;
/// // Three examples of two features.
/// let x = Tensor::new(&[[1_f32, 10.0], [2.0, 20.0], [3.0, 60.0]], &Device::Cpu)?;
/// let y = norm.forward_t(&x, true)?;
/// assert!(y.mean(0)?.abs()?.max_all()?.to_scalar::<f32>()? < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SyncBatchNorm {
    group: Arc<Mutex<Group>>,
    running_mean: Var,
    running_var: Var,
    weight_and_bias: Option<(Tensor, Tensor)>,
    config: BatchNormConfig,
}

/// Makes a [`SyncBatchNorm`] of so many features, over the ranks of a group.
///
/// # Errors
/// When the numbers make no sense, or the variables cannot be had.
pub fn sync_batch_norm<C: Into<BatchNormConfig>>(
    features: usize,
    config: C,
    vb: VarBuilder<'_>,
    group: &Group,
) -> Result<SyncBatchNorm> {
    let config = config.into();
    let BatchNormConfig { eps, momentum, affine, .. } = config;
    if !(eps >= 0.0 && (0.0..=1.0).contains(&momentum)) {
        bail!("a batch norm cannot have an eps of {eps} and a momentum of {momentum}")
    }
    let get = |name, init| vb.get_with_hints(features, name, Init::Const(init));
    let (running_mean, running_var) = (get("running_mean", 0.0)?, get("running_var", 1.0)?);
    let weight_and_bias =
        if affine { Some((get("weight", 1.0)?, get("bias", 0.0)?)) } else { None };
    Ok(SyncBatchNorm {
        group: Arc::new(Mutex::new(group.clone())),
        running_mean: Var::from_tensor(&running_mean)?,
        running_var: Var::from_tensor(&running_var)?,
        weight_and_bias,
        config,
    })
}

impl SyncBatchNorm {
    /// The mean of each feature, as training has seen it.
    pub fn running_mean(&self) -> &Tensor {
        self.running_mean.as_tensor()
    }

    /// The variance of each feature, as training has seen it.
    pub fn running_var(&self) -> &Tensor {
        self.running_var.as_tensor()
    }

    /// What is learned, if anything is.
    pub fn weight_and_bias(&self) -> Option<(&Tensor, &Tensor)> {
        self.weight_and_bias.as_ref().map(|(weight, bias)| (weight, bias))
    }

    /// Goes on with another group, as
    /// [`DistributedDataParallel::set_group`](super::DistributedDataParallel::set_group) does. So do clones
    /// of the layer.
    pub fn set_group(&self, group: &Group) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group.clone();
    }

    /// Normalises with the statistics of all ranks' batches, and remembers them.
    ///
    /// # Errors
    /// When the input has another shape, or all ranks together have fewer than two numbers of each feature;
    /// and why the group has ended, if it has.
    pub fn forward_train(&self, x: &Tensor) -> Result<Tensor> {
        self.check(x)?;
        let by_feature = x.to_dtype(wide(x.dtype()))?.transpose(0, 1)?;
        // Those of a device are normalised on the host, and candle takes gradients the same way back.
        let rows = by_feature.flatten_from(1)?.contiguous()?.to_device(&Device::Cpu)?;
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let moments = self.of_all(&group, &rows)?;
        if moments.count < 2.0 {
            let count = moments.count;
            bail!("a batch norm cannot learn from {count} numbers of each feature on all ranks")
        }
        self.remember(&moments)?;
        let scale = Scale::new(&moments, self.config.eps);
        let is_centred = self.config.remove_mean;
        let normalised =
            rows.apply_op1(Normalise { group, scale, count: moments.count, is_centred })?;
        let shape = [self.features(), 1];
        let normalised = normalised.to_device(x.device())?.to_dtype(x.dtype())?;
        let y = self.affine(&normalised, &shape)?;
        y.reshape(by_feature.dims())?.transpose(0, 1)
    }

    /// Normalises with what training has seen.
    fn forward_eval(&self, x: &Tensor) -> Result<Tensor> {
        self.check(x)?;
        let mut shape = vec![1; x.rank()];
        shape[1] = self.features();
        let dtype = wide(x.dtype());
        let [mean, var] = [&self.running_mean, &self.running_var]
            .map(|running| running.as_detached_tensor().to_dtype(dtype)?.reshape(&shape[..]));
        let deviation = (var? + self.config.eps)?.sqrt()?;
        let x_hat = x.to_dtype(dtype)?.broadcast_sub(&mean?)?.broadcast_div(&deviation)?;
        self.affine(&x_hat.to_dtype(x.dtype())?, &shape)
    }

    fn features(&self) -> usize {
        self.running_mean.elem_count()
    }

    fn check(&self, x: &Tensor) -> Result<()> {
        let features = self.features();
        if x.rank() < 2 || x.dim(1)? != features {
            bail!("a batch norm of {features} features cannot take {:?}", x.shape())
        }
        Ok(())
    }

    /// The statistics of all ranks: the same bits on each.
    fn of_all(&self, group: &Group, rows: &Tensor) -> Result<Moments> {
        let (features, is_centred) = (self.features(), self.config.remove_mean);
        let mine = match rows.dtype() {
            DType::F64 => numbers(rows, |rows: &[f64]| Moments::of(rows, features, is_centred)),
            _ => numbers(rows, |rows: &[f32]| Moments::of(rows, features, is_centred)),
        }?;
        let mine = mine.into_numbers();
        let mut all = vec![0.0; mine.len() * group.world()];
        group.all_gather(&mine, &mut all).context("in the forward of a SyncBatchNorm")?;
        Ok(Moments::together(&all, features))
    }

    fn remember(&self, moments: &Moments) -> Result<()> {
        let momentum = self.config.momentum;
        let remember = |running: &Var, now: Vec<f64>| {
            let now = Tensor::from_vec(now, self.features(), &Device::Cpu)?;
            let now = now.to_dtype(running.dtype())?.to_device(running.device())?;
            running.set(&((running.as_tensor() * (1.0 - momentum))? + (now * momentum)?)?)
        };
        if self.config.remove_mean {
            remember(&self.running_mean, moments.mean.clone())?;
        }
        remember(&self.running_var, moments.variance_of_population())
    }

    fn affine(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
        match &self.weight_and_bias {
            None => Ok(x.clone()),
            Some((weight, bias)) => {
                x.broadcast_mul(&weight.reshape(shape)?)?.broadcast_add(&bias.reshape(shape)?)
            }
        }
    }
}

impl ModuleT for SyncBatchNorm {
    fn forward_t(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        if train { self.forward_train(x) } else { self.forward_eval(x) }
    }
}

/// Normalises rows, one for each feature. Its backward knows that what a number changes changes the
/// statistics as well, on all ranks.
struct Normalise {
    group: Group,
    scale: Scale,
    /// How many numbers of each feature all ranks have.
    count: f64,
    is_centred: bool,
}

impl Normalise {
    fn backward<T: WithDType + Plain>(
        &self,
        gradient: &Tensor,
        normalised: &Tensor,
    ) -> Result<Tensor> {
        let shape = gradient.shape();
        let gradient: Vec<T> = numbers(gradient, <[T]>::to_vec)?;
        let normalised: Vec<T> = numbers(normalised, <[T]>::to_vec)?;
        let mut sums = sums(&gradient, &normalised, self.scale.features());
        self.group
            .all_reduce(&mut sums, ReduceOp::Sum)
            .context("in the backward of a SyncBatchNorm")?;
        sums.iter_mut().for_each(|sum| *sum /= self.count);
        if !self.is_centred {
            sums[..self.scale.features()].fill(0.0);
        }
        Tensor::from_vec(self.scale.gradient(&gradient, &normalised, &sums), shape, &Device::Cpu)
    }
}

impl CustomOp1 for Normalise {
    fn name(&self) -> &'static str {
        "sync-batch-norm"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let from = layout.start_offset();
        let part = from..from + layout.shape().elem_count();
        let normalised = match storage {
            CpuStorage::F32(all) => CpuStorage::F32(self.scale.normalise(&all[part])),
            CpuStorage::F64(all) => CpuStorage::F64(self.scale.normalise(&all[part])),
            _ => bail!("a batch norm computes with f32 or f64"),
        };
        Ok((normalised, layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, normalised: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let result = match gradient.dtype() {
            DType::F64 => self.backward::<f64>(gradient, normalised),
            _ => self.backward::<f32>(gradient, normalised),
        };
        result.map(Some)
    }
}

/// With how many bits numbers of a dtype are normalised.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Looks at a tensor's elements, row by row.
fn numbers<T: Plain, R>(tensor: &Tensor, look: impl FnOnce(&[T]) -> R) -> Result<R> {
    with_bytes(tensor, |bytes| look(bytemuck::cast_slice(bytes)))
}
