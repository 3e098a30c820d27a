//! A group, as Python holds it.

use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use consort::{Dtype, Lists, Rank, ReduceOp, Tag};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{mistake, raise};
use crate::op::Op;
use crate::region::Region;
use crate::store::Store;
use crate::symmetric::Symmetric;
use crate::task::{Held, HeldMessage, Parts, Task, Way};
use crate::trace;

/// A process's hold on its group.
///
/// Calls take memory as pairs of an address and a number of bytes, and the tensors that keep it. With
/// `now` a call is carried out on this thread and gives `None`; otherwise it gives an `Op`.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Group {
    /// `None` when this process has left it.
    held: RwLock<Option<consort::Group>>,
    rank: u32,
    world: usize,
    name: String,
}

/// How a call is to be made.
#[derive(FromPyObject)]
struct Manner<'py> {
    /// What keeps the memory.
    #[pyo3(item(0))]
    tensors: Bound<'py, PyAny>,
    /// Whether it is carried out now.
    #[pyo3(item(1))]
    now: bool,
    /// In how many seconds, if not within the group's time.
    #[pyo3(item(2))]
    seconds: Option<f64>,
}

#[pymethods]
impl Group {
    /// This process's number in the group.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the group has.
    #[getter]
    fn world(&self) -> usize {
        self.world
    }

    /// The group's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The ranks of its members in the group that the ranks of the job met in.
    fn world_ranks(&self) -> PyResult<Vec<u32>> {
        Ok(self.group(None)?.world_ranks().to_vec())
    }

    /// How data travels: `shm`, `tcp` or `mixed`.
    fn transport(&self) -> PyResult<&'static str> {
        self.group(None)?.backend_name().map_err(|error| raise(&error))
    }

    /// How many calls this rank has made.
    fn calls(&self) -> PyResult<u64> {
        Ok(self.group(None)?.calls())
    }

    /// How many seconds its calls wait for other ranks.
    fn timeout(&self) -> PyResult<f64> {
        Ok(self.group(None)?.timeout().as_secs_f64())
    }

    /// Has calls wait so many seconds for other ranks from now on.
    fn set_timeout(&self, seconds: f64) -> PyResult<()> {
        let timeout = duration(seconds)?;
        if let Some(group) = &mut *self.held.write().unwrap_or_else(PoisonError::into_inner) {
            *group = group.within(timeout);
        }
        Ok(())
    }

    /// The store that all ranks of the job share.
    fn store(&self) -> PyResult<Store> {
        Ok(Store::new(self.group(None)?.store().clone()))
    }

    /// Nobody leaves before everyone has come.
    fn barrier(&self, py: Python<'_>, manner: Manner<'_>) -> PyResult<Option<Op>> {
        self.make(py, Task::Barrier, manner)
    }

    /// Everyone gets the combination of everyone's input.
    fn all_reduce(
        &self,
        py: Python<'_>,
        dtype: u8,
        op: (u8, f64),
        input: Region,
        output: Region,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, op) = (known(dtype)?, combined(op)?);
        self.make(py, Task::AllReduce { dtype, op, input, output }, manner)
    }

    /// Everyone gets the root's data.
    fn broadcast(
        &self,
        py: Python<'_>,
        dtype: u8,
        root: u32,
        buffer: Region,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, root) = (known(dtype)?, root.into());
        self.make(py, Task::Broadcast { dtype, root, buffer }, manner)
    }

    /// The root gets the combination of everyone's input.
    #[expect(clippy::too_many_arguments, reason = "a call has so many parts")]
    fn reduce(
        &self,
        py: Python<'_>,
        dtype: u8,
        op: (u8, f64),
        root: u32,
        input: Region,
        output: Option<Region>,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, op, root) = (known(dtype)?, combined(op)?, root.into());
        self.make(py, Task::Reduce { dtype, op, root, input, output }, manner)
    }

    /// Everyone gets everyone's input.
    fn all_gather(
        &self,
        py: Python<'_>,
        dtype: u8,
        input: Region,
        outputs: Parts,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let dtype = known(dtype)?;
        self.make(py, Task::AllGather { dtype, input, outputs }, manner)
    }

    /// The root gets everyone's input, whatever their sizes.
    fn gather(
        &self,
        py: Python<'_>,
        dtype: u8,
        root: u32,
        input: Region,
        outputs: Option<Parts>,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, root, uneven) = (known(dtype)?, root.into(), true);
        self.make(py, Task::Gather { dtype, root, uneven, input, outputs }, manner)
    }

    /// Everyone gets a part of the root's data, whatever their sizes.
    fn scatter(
        &self,
        py: Python<'_>,
        dtype: u8,
        root: u32,
        inputs: Option<Parts>,
        output: Region,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, root, uneven) = (known(dtype)?, root.into(), true);
        self.make(py, Task::Scatter { dtype, root, uneven, inputs, output }, manner)
    }

    /// Everyone gets the combination of everyone's part for it.
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        dtype: u8,
        op: (u8, f64),
        inputs: Parts,
        output: Region,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let (dtype, op) = (known(dtype)?, combined(op)?);
        self.make(py, Task::ReduceScatter { dtype, op, inputs, output }, manner)
    }

    /// Everyone gets a part from everyone.
    fn all_to_all(
        &self,
        py: Python<'_>,
        dtype: u8,
        uneven: bool,
        inputs: Parts,
        outputs: Parts,
        manner: Manner<'_>,
    ) -> PyResult<Option<Op>> {
        let dtype = known(dtype)?;
        self.make(py, Task::AllToAll { dtype, uneven, inputs, outputs }, manner)
    }

    /// Sends a message.
    fn send(
        &self,
        dtype: u8,
        region: Region,
        to: u32,
        tag: u32,
        manner: Manner<'_>,
    ) -> PyResult<Op> {
        self.post(dtype, region, Way::To(to.into()), tag, manner)
    }

    /// Receives a message, from anybody if no rank is named.
    fn recv(
        &self,
        dtype: u8,
        region: Region,
        from: Option<u32>,
        tag: u32,
        manner: Manner<'_>,
    ) -> PyResult<Op> {
        self.post(dtype, region, Way::From(from.map(Rank::from)), tag, manner)
    }

    /// A barrier that names every rank that does not come in time, which ends the group.
    #[pyo3(signature = (seconds=None))]
    fn monitored_barrier(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        let group = self.group(seconds)?;
        py.detach(|| group.monitored_barrier()).map_err(|error| raise(&error))
    }

    /// A group of some ranks of this one, in this order, which they alone ask for.
    fn among(&self, py: Python<'_>, name: &str, ranks: Vec<u32>, seconds: f64) -> PyResult<Self> {
        let group = self.group(Some(seconds))?;
        let some = py.detach(|| group.among(name, &ranks)).map_err(|error| raise(&error))?;
        Ok(Self::new(some))
    }

    /// A group of those that are left, without these ranks.
    #[pyo3(signature = (without, seconds=None))]
    fn shrink(&self, py: Python<'_>, without: Vec<u32>, seconds: Option<f64>) -> PyResult<Self> {
        let (group, own) = (self.group(seconds)?, self.group(None)?.timeout());
        let rest = py.detach(|| group.shrink_without(&without)).map_err(|error| raise(&error))?;
        Ok(Self::new(rest.within(own)))
    }

    /// Memory that all ranks of the host reach: so many bytes on each.
    #[pyo3(signature = (bytes, channels, seconds=None))]
    fn symmetric(
        &self,
        py: Python<'_>,
        bytes: usize,
        channels: usize,
        seconds: Option<f64>,
    ) -> PyResult<Symmetric> {
        let group = self.group(seconds)?;
        let options = consort::symm::Options::new().channels(channels);
        let made = py.detach(|| group.symmetric_with::<u8>(bytes, &options));
        made.map(Symmetric::new).map_err(|error| raise(&error))
    }

    /// Whether all ranks share memory.
    fn shares_memory(&self) -> PyResult<bool> {
        Ok(self.group(None)?.shares_memory())
    }

    /// Ends the group for all ranks, at once, and says why. What waits in it gets an error.
    fn abort(&self, py: Python<'_>, reason: &str) {
        let group = self.held.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(group) = group {
            py.detach(|| group.abort(reason));
        }
    }

    /// What has ended the group, if it has ended.
    fn error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let group = self.group(None)?;
        let error = py.detach(|| group.error());
        Ok(error.map(|error| raise(&error).into_value(py).into_any()))
    }

    /// The last calls of this rank, in all groups of the job.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.group(None)?.trace() {
            Some(record) => trace::dict(py, &record),
            None => Err(mistake("this rank has no memory for a record of its calls")),
        }
    }

    /// Leaves the group. Calls that were begun go on.
    fn leave(&self, py: Python<'_>) {
        let group = self.held.write().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(group));
    }

    /// Whether this process has left the group.
    fn has_left(&self) -> bool {
        self.held.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Drop for Group {
    /// Leaves the group, if that was not done. Others may have something to say before this process can
    /// go, and whoever drops an object of Python does not expect to wait.
    fn drop(&mut self) {
        let Some(group) = self.held.get_mut().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // If there is no thread to be had, the closure is dropped here, and the group with it.
        let _ = thread::Builder::new().name("consort leaves".to_owned()).spawn(|| drop(group));
    }
}

impl Group {
    pub(crate) fn new(group: consort::Group) -> Self {
        let (rank, world, name) = (group.rank().get(), group.world(), group.name().to_owned());
        Self { held: RwLock::new(Some(group)), rank, world, name }
    }

    /// The group, with another time for its calls if one is given.
    pub(crate) fn group(&self, seconds: Option<f64>) -> PyResult<consort::Group> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let Some(group) = &*held else {
            return Err(mistake(format!(
                "group {}: this process has left it (destroy_process_group or shutdown was called)",
                self.name
            )));
        };
        match seconds {
            None => Ok(group.clone()),
            Some(seconds) => Ok(group.within(duration(seconds)?)),
        }
    }

    /// Carries a call out, or begins it.
    fn make(&self, py: Python<'_>, task: Task, manner: Manner<'_>) -> PyResult<Option<Op>> {
        let group = self.group(manner.seconds)?;
        if manner.now {
            // The group may be left meanwhile, and its last hold be this one.
            let made = py.detach(move || group.call(&task.call(&mut Lists::default())));
            return made.map(|()| None).map_err(|error| raise(&error));
        }
        let held = Held { task, _tensors: manner.tensors.unbind() };
        match group.call_async(held) {
            Ok(work) => Ok(Some(Op::of_call(work))),
            Err(failed) => Err(raise(&failed.error)),
        }
    }

    fn post(
        &self,
        dtype: u8,
        region: Region,
        way: Way,
        tag: u32,
        manner: Manner<'_>,
    ) -> PyResult<Op> {
        let group = self.group(manner.seconds)?;
        let (dtype, tag, _tensors) = (known(dtype)?, Tag::from(tag), manner.tensors.unbind());
        match group.message_async(HeldMessage { way, dtype, region, tag, _tensors }) {
            Ok(work) => Ok(Op::of_message(work)),
            Err(failed) => Err(raise(&failed.error)),
        }
    }
}

fn known(dtype: u8) -> PyResult<Dtype> {
    Dtype::from_code(dtype).ok_or_else(|| mistake(format!("there is no dtype {dtype}")))
}

/// The operation of a code, with its factor.
fn combined((code, factor): (u8, f64)) -> PyResult<ReduceOp> {
    match ReduceOp::ALL.get(usize::from(code)) {
        Some(ReduceOp::PremulSum(_)) => Ok(ReduceOp::PremulSum(factor)),
        Some(op) => Ok(*op),
        None => Err(mistake(format!("there is no reduce operation {code}"))),
    }
}

/// A time that Python gives in seconds.
pub(crate) fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| mistake(format!("{seconds} seconds are no time that one could wait")))
}
