//! What averages gradients, as Python holds it.

use std::sync::{PoisonError, RwLock};

use consort::Dtype;
use consort_train::{
    Average, Caps, Cast, CommHook, Error, Int8, Noop, Options, Parameter, Pass, PowerSgd, Unused,
    Value,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{exception, mistake, raise};
use crate::group::Group;
use crate::region::Region;

/// Averages the gradients of a model over all ranks, while backward computes others.
///
/// Gradients are written by PyTorch itself where they travel: [`Places`] says where. It may touch a place
/// from the end of a pass until it says that the gradient there is ready; then the place is the reducer's
/// until `finish` returns. No reference to it is kept in between: consort-train's `Places` has the rules,
/// and `consort.torch.gradients` keeps them.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Reducer {
    reducer: consort_train::Reducer,
    /// The pass that has begun.
    pass: RwLock<Option<Pass>>,
}

/// Where gradients lie, for as long as this lives.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Places {
    places: consort_train::Places,
    parameters: usize,
}

/// A parameter: its name, the code of its dtype, its shape and strides, and whether its gradient comes by
/// rows.
type Described = (String, u8, Vec<usize>, Vec<usize>, bool);

/// What came of a pass: the parameters that have a gradient nowhere, and of those whose gradient is by rows
/// their number, the rows' numbers and their values.
type Finished<'py> = (Vec<usize>, Vec<(usize, Bound<'py, PyBytes>, Bound<'py, PyBytes>)>);

/// How gradients are averaged: what `consort.torch.data_parallel` calls so.
#[derive(FromPyObject)]
struct Wishes {
    /// The sizes of buckets in bytes, or none if they are to be found by measuring.
    caps: Option<Vec<usize>>,
    /// Whether parameters may have no gradient.
    find_unused: bool,
    static_graph: bool,
    /// Whether nothing travels before backward has ended.
    delay: bool,
    /// The name of the communication hook, and what it may be told.
    hook: String,
    rank: Option<usize>,
    after: Option<u64>,
    min_compression_rate: Option<f64>,
    error_feedback: Option<bool>,
}

#[pymethods]
impl Reducer {
    #[new]
    fn new(
        py: Python<'_>,
        group: &Group,
        parameters: Vec<Described>,
        wishes: Wishes,
    ) -> PyResult<Self> {
        let group = group.group(None)?;
        let parameters: PyResult<Vec<Parameter>> = parameters.into_iter().map(described).collect();
        let (parameters, options) = (parameters?, wishes.options()?);
        let made = py.detach(|| consort_train::Reducer::new(&group, parameters, options));
        Ok(Self { reducer: made.map_err(|error| told(&error))?, pass: RwLock::new(None) })
    }

    /// A forward pass begins: only times depend on it.
    fn begin_forward(&self) {
        self.reducer.begin_forward();
    }

    /// Begins with a backward pass. Gives the number of the buckets: if it is another than before, there
    /// are other places.
    fn begin(&self, py: Python<'_>) -> PyResult<u64> {
        let begun = py.detach(|| {
            let mut held = self.pass.write().unwrap_or_else(PoisonError::into_inner);
            // One that was begun and not ended keeps the next from beginning, which says so.
            let pass = self.reducer.begin()?;
            let generation = pass.places()?.generation();
            *held = Some(pass);
            Ok(generation)
        });
        begun.map_err(|error| told(&error))
    }

    /// A gradient is at its place.
    fn ready(&self, py: Python<'_>, index: usize) -> PyResult<()> {
        let done = py.detach(|| self.with_pass(|pass| pass.ready_in_place(index)));
        done.map_err(|error| told(&error))
    }

    /// Several gradients are at their places, which came in this order.
    fn all_ready(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<()> {
        let done = py.detach(|| {
            self.with_pass(|pass| indices.iter().try_for_each(|&index| pass.ready_in_place(index)))
        });
        done.map_err(|error| told(&error))
    }

    /// Some rows of a gradient: their numbers, as many `i64`, and their values. They are copied.
    fn ready_rows(
        &self,
        py: Python<'_>,
        index: usize,
        rows: Region,
        values: Region,
    ) -> PyResult<()> {
        let rows = rows.source().to_vec();
        let rows: Vec<u64> = rows
            .chunks_exact(size_of::<u64>())
            .map(|row| u64::from_ne_bytes(row.try_into().expect("a chunk is as long as a number")))
            .collect();
        let values = values.source().to_vec();
        let done = py.detach(|| {
            self.with_pass(|pass| {
                let parameter = self.reducer.parameters().get(index);
                let dtype = parameter.map_or(Dtype::F32, Parameter::dtype);
                pass.ready_rows_bytes(index, &rows, dtype, &values)
            })
        });
        done.map_err(|error| told(&error))
    }

    /// Backward has ended: waits for the averages, which are then where the gradients were, unless they
    /// are by rows.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Finished<'py>> {
        let done = py.detach(|| self.take().ok_or_else(no_pass)?.finish());
        let averages = done.map_err(|error| told(&error))?;
        let parameters = self.reducer.parameters();
        let (mut unused, mut by_rows) = (Vec::new(), Vec::new());
        for (index, parameter) in parameters.iter().enumerate() {
            if !averages.is_used(index) {
                unused.push(index);
            } else if parameter.is_sparse() {
                let found = averages.rows_bytes(index).map_err(|error| told(&error))?;
                let (rows, values) = found.expect("it is used, and nobody has taken it");
                let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_ne_bytes()).collect();
                by_rows.push((index, PyBytes::new(py, &rows), PyBytes::new(py, values)));
            }
        }
        Ok((unused, by_rows))
    }

    /// Backward has failed, if it has begun: the pass is given up. If the others wait for its gradients,
    /// the group ends for all.
    fn fail(&self, py: Python<'_>, why: &str) {
        py.detach(|| {
            if let Some(pass) = self.take() {
                pass.fail(why);
            }
        });
    }

    /// Where gradients lie now.
    fn places(&self) -> PyResult<Places> {
        let places = self.reducer.places().map_err(|error| told(&error))?;
        Ok(Places { places, parameters: self.reducer.parameters().len() })
    }

    /// The parameters in each bucket.
    fn buckets(&self) -> Vec<Vec<usize>> {
        self.reducer.buckets()
    }

    /// Goes on with another group.
    fn set_group(&self, py: Python<'_>, group: &Group) -> PyResult<()> {
        let group = group.group(None)?;
        py.detach(|| self.reducer.set_group(&group)).map_err(|error| told(&error))
    }

    /// What it has done, under the names that PyTorch has for it.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, value) in self.reducer.stats().fields() {
            match value {
                Value::Number(number) => found.set_item(name, number)?,
                Value::Text(text) => found.set_item(name, text)?,
            }
        }
        Ok(found)
    }

    /// The same, for people.
    fn report(&self) -> String {
        self.reducer.stats().to_string()
    }
}

impl Reducer {
    fn with_pass<R>(
        &self,
        act: impl FnOnce(&Pass) -> consort_train::Result<R>,
    ) -> consort_train::Result<R> {
        let held = self.pass.read().unwrap_or_else(PoisonError::into_inner);
        act(held.as_ref().ok_or_else(no_pass)?)
    }

    fn take(&self) -> Option<Pass> {
        self.pass.write().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Places {
    /// The number of the buckets.
    #[getter]
    fn generation(&self) -> u64 {
        self.places.generation()
    }

    /// For each parameter its bucket, and where its gradient begins; none if that is by rows.
    fn all(&self) -> Vec<Option<(usize, usize)>> {
        let places = (0..self.parameters).map(|index| self.places.of(index));
        places.map(|place| place.map(|place| (place.bucket, place.address))).collect()
    }
}

impl Wishes {
    fn options(&self) -> PyResult<Options> {
        let caps = match &self.caps {
            None => Caps::auto(),
            Some(caps) => Caps::list(caps.iter().copied()).map_err(|error| told(&error))?,
        };
        let unused = if self.find_unused { Unused::Average } else { Unused::Refuse };
        let hook = self.hook().map_err(|error| told(&error))?;
        let mut options = Options::new().in_place().caps(caps).unused(unused);
        if self.static_graph {
            options = options.static_graph();
        }
        if self.delay {
            options = options.delay();
        }
        Ok(options.hook(hook))
    }

    fn hook(&self) -> consort_train::Result<Box<dyn CommHook>> {
        Ok(match &*self.hook {
            "average" => Box::new(Average),
            "bf16" => Box::new(Cast::bf16()),
            "f16" => Box::new(Cast::f16()),
            "int8" => Box::new(Int8::new().error_feedback(self.error_feedback.unwrap_or(false))),
            "powersgd" => {
                let mut hook = PowerSgd::of_rank(self.rank.unwrap_or(1))?;
                if let Some(after) = self.after {
                    hook = hook.after(after);
                }
                if let Some(rate) = self.min_compression_rate {
                    hook = hook.min_compression_rate(rate)?;
                }
                Box::new(hook.error_feedback(self.error_feedback.unwrap_or(true)))
            }
            "none" => Box::new(Noop),
            name => {
                return Err(Error::Argument(format!(
                    "there is no communication hook {name:?}: there are average, bf16, f16, int8, powersgd and \
                     none"
                )));
            }
        })
    }
}

fn described((name, dtype, shape, strides, is_sparse): Described) -> PyResult<Parameter> {
    let dtype =
        Dtype::from_code(dtype).ok_or_else(|| mistake(format!("there is no dtype {dtype}")))?;
    let parameter = Parameter::new(name, dtype, &shape).with_strides(&strides);
    let parameter = parameter.and_then(|it| if is_sparse { it.sparse() } else { Ok(it) });
    parameter.map_err(|error| told(&error))
}

fn no_pass() -> Error {
    Error::Argument("a gradient came, and no backward pass has begun".to_owned())
}

/// The exception for an error, in words that Python's users know.
fn told(error: &Error) -> PyErr {
    let words = match error {
        Error::Group(error) => return raise(error),
        Error::Twice { name } => format!(
            "the gradient of parameter {name:?} was complete twice in one backward pass, as happens when a \
             part of the model is run again in backward (checkpointing) more than once: say \
             static_graph=True if every backward pass does the same"
        ),
        Error::Unused { missing, .. } => format!(
            "no gradient came for {} of the parameters, {}: every parameter has to have a part in the loss \
             on every rank, or find_unused_parameters=True has to be said",
            missing.len(),
            some(missing)
        ),
        Error::Failed { first, .. } => format!(
            "the gradients of this model cannot be averaged any more ({first}): go on with a group of the \
             ranks that are left, by set_group"
        ),
        other => other.to_string(),
    };
    exception(error.kind(), words, Vec::new())
}

/// Some of many names.
fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    let more = if names.len() > SHOWN { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// So many names are told.
const SHOWN: usize = 12;
