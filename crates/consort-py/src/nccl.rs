//! NCCL's own calls, on one communicator or on several of this process.

use std::path::PathBuf;
use std::ptr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use consort::nccl::{self, Bootstrap, Comm, Config, Error, Library, Stream, UniqueId};
use consort::{Dtype, ReduceOp};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::errors::{exception, mistake};
use crate::region::Region;

/// The loaded NCCL's version, what it says of itself if it is consort's own, and the version that consort knows.
#[pyfunction]
pub(crate) fn nccl_library(py: Python<'_>) -> PyResult<(Numbers, Option<&'static str>, Numbers)> {
    let library = library(py)?;
    let numbers = |version: nccl::Version| (version.major, version.minor, version.patch);
    Ok((numbers(library.version()), library.identity(), numbers(nccl::BUILT_AGAINST)))
}

/// A version.
type Numbers = (u32, u32, u32);

/// An id, at which this process listens for as long as it lives.
#[pyfunction]
pub(crate) fn nccl_unique_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let library = library(py)?;
    let bootstrap = py.detach(|| Bootstrap::new(library)).map_err(|error| raise(&error))?;
    let id = *bootstrap.id();
    bootstrap.release();
    Ok(PyBytes::new(py, id.as_bytes()))
}

/// Becomes rank `rank` of `world`, with those that show the same id.
#[pyfunction]
pub(crate) fn nccl_init_rank(
    py: Python<'_>,
    world: u32,
    id: &[u8],
    rank: u32,
    timeout: Option<f64>,
) -> PyResult<Communicator> {
    let id = UniqueId::from_bytes(id).map_err(|error| raise(&error))?;
    let mut config = Config::new();
    if let Some(seconds) = timeout {
        let limit = Duration::try_from_secs_f64(seconds);
        config = config.timeout(limit.map_err(|error| mistake(format!("timeout: {error}")))?);
    }
    let library = library(py)?;
    let made = py.detach(|| Comm::init_rank_with(library, world, &id, rank, &config));
    made.map(|comm| Communicator::new(Hold::Own(Arc::new(comm)))).map_err(|error| raise(&error))
}

/// The communicators of some devices of this process, which are kept.
#[pyfunction]
pub(crate) fn nccl_cached(py: Python<'_>, devices: Vec<i32>) -> PyResult<Vec<Communicator>> {
    let library = library(py)?;
    let comms = py.detach(|| nccl::cached(library, &devices)).map_err(|error| raise(&error))?;
    Ok((0..comms.len()).map(|at| Communicator::new(Hold::Kept(comms.clone(), at))).collect())
}

/// Makes one call of each of some communicators of this process, all in one group. Which memory each receives into may
/// be left out where the call allows it.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "it is called by the package alone, with all of them"
)]
pub(crate) fn nccl_call(
    py: Python<'_>,
    call: &str,
    comms: Vec<PyRef<'_, Communicator>>,
    inputs: Vec<Region>,
    outputs: Vec<Option<Region>>,
    dtype: &str,
    op: &str,
    root: u32,
    streams: Vec<usize>,
) -> PyResult<()> {
    let call: Call = call.parse()?;
    let dtype: Dtype = dtype.parse().map_err(|error| mistake(format!("{error}")))?;
    let op: ReduceOp = op.parse().map_err(|error| mistake(format!("{error}")))?;
    let holds = comms.iter().map(|comm| comm.hold()).collect::<PyResult<Vec<_>>>()?;
    if [inputs.len(), outputs.len(), streams.len()] != [holds.len(); 3] {
        return Err(mistake("each communicator has one input, one output and one stream"));
    }
    let issue = || {
        let places = inputs.iter().zip(&outputs).zip(&streams);
        holds.iter().zip(places).try_for_each(|(hold, ((input, output), stream))| {
            call.issue(hold.comm(), *input, *output, (dtype, op, root), *stream)
        })
    };
    let Some(first) = holds.first() else { return Ok(()) };
    py.detach(|| nccl::group(first.comm().library(), issue)).map_err(|error| raise(&error))
}

/// A rank's end of a number of ranks that work together.
///
/// It is closed at the end of a `with` block: in good order, which all ranks do, or aborted if the block raises. One
/// that is forgotten is aborted.
///
/// PyTorch's is a capsule, for `comms` and nothing else.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Communicator {
    /// None once it was closed.
    hold: Mutex<Option<Hold>>,
    rank: u32,
    world: u32,
    device: Option<i32>,
}

#[pymethods]
impl Communicator {
    /// Which of the ranks this is.
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[getter]
    fn world(&self) -> u32 {
        self.world
    }

    /// The number of its device, if NCCL tells.
    #[getter]
    fn device(&self) -> Option<i32> {
        self.device
    }

    /// Does what was issued, and ends it. All ranks do so. Closing it again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut held = self.lock();
        let Some(Hold::Own(comm)) = held.take() else { return Ok(()) };
        let comm = Arc::try_unwrap(comm).map_err(|comm| {
            *held = Some(Hold::Own(comm));
            mistake("close: another thread is in a call of this communicator; abort ends that")
        })?;
        drop(held);
        py.detach(|| comm.destroy()).map_err(|error| raise(&error))
    }

    /// Ends it at once, on this rank alone, also while another thread is in a call of it.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let Some(hold) = self.lock().take() else { return Ok(()) };
        py.detach(|| hold.comm().abort()).map_err(|error| raise(&error))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _value: Option<Py<PyAny>>,
        _traceback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if kind.is_some() { self.abort(py) } else { self.close(py) }
    }

    fn __repr__(&self) -> String {
        let state = if self.lock().is_some() { "" } else { ", closed" };
        format!("<consort.nccl.Communicator: rank {} of {}{state}>", self.rank, self.world)
    }
}

impl Communicator {
    fn new(hold: Hold) -> Self {
        let comm = hold.comm();
        let (rank, world, device) = (comm.rank(), comm.world(), comm.device());
        Self { hold: Mutex::new(Some(hold)), rank, world, device }
    }

    fn hold(&self) -> PyResult<Hold> {
        let closed = || format!("the communicator of rank {} was closed: make another", self.rank);
        self.lock().clone().ok_or_else(|| mistake(closed()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Hold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Communicator {
    /// One that is forgotten is aborted. Whoever drops an object of Python does not expect to wait for that.
    fn drop(&mut self) {
        let Some(mut hold) = self.lock().take() else { return };
        if hold.is_last() {
            // If there is no thread to be had, the closure is dropped here, and the communicator with it.
            let _ = thread::Builder::new().name("consort aborts".to_owned()).spawn(|| drop(hold));
        }
    }
}

/// Whose a communicator is.
#[derive(Clone)]
enum Hold {
    /// The program's.
    Own(Arc<Comm>),
    /// One of those that are kept.
    Kept(Arc<[Comm]>, usize),
}

impl Hold {
    fn comm(&self) -> &Comm {
        match self {
            Self::Own(comm) => comm,
            Self::Kept(comms, at) => &comms[*at],
        }
    }

    /// Whether its communicators end with it: nobody else has them, nor keeps them.
    fn is_last(&mut self) -> bool {
        match self {
            Self::Own(comm) => Arc::get_mut(comm).is_some(),
            Self::Kept(comms, _) => Arc::get_mut(comms).is_some(),
        }
    }
}

/// A call of NCCL's.
#[derive(Clone, Copy)]
enum Call {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
}

impl FromStr for Call {
    type Err = PyErr;

    fn from_str(name: &str) -> PyResult<Self> {
        Ok(match name {
            "all_reduce" => Self::AllReduce,
            "reduce" => Self::Reduce,
            "broadcast" => Self::Broadcast,
            "all_gather" => Self::AllGather,
            "reduce_scatter" => Self::ReduceScatter,
            _ => return Err(mistake(format!("NCCL has no call {name:?}"))),
        })
    }
}

impl Call {
    fn issue(
        self,
        comm: &Comm,
        input: Region,
        output: Option<Region>,
        (dtype, op, root): (Dtype, ReduceOp, u32),
        stream: usize,
    ) -> nccl::Result<()> {
        let (send, recv) = (input.source(), output.map(Region::target));
        let into = recv.unwrap_or_else(|| input.target());
        // SAFETY: the package has it from whoever made the stream.
        let stream = unsafe { Stream::from_raw(ptr::with_exposed_provenance_mut(stream)) };
        match self {
            // SAFETY: the package has the tensors in its hands until the call returns, and its users keep them, as for
            // every call on a stream, until that is done; NCCL is told where they lie, and nobody looks into them
            // here. So below.
            Self::AllReduce => unsafe { comm.all_reduce(send, into, dtype, op, stream) },
            // SAFETY: as above.
            Self::Reduce => unsafe { comm.reduce(send, recv, dtype, op, root, stream) },
            // SAFETY: as above.
            Self::Broadcast => unsafe { comm.broadcast(None, into, dtype, root, stream) },
            // SAFETY: as above.
            Self::AllGather => unsafe { comm.all_gather(send, into, dtype, stream) },
            // SAFETY: as above.
            Self::ReduceScatter => unsafe { comm.reduce_scatter(send, into, dtype, op, stream) },
        }
    }
}

/// NCCL where consort looks for it, or else among this Python's own packages, which need no environment that is active.
/// What was found once stays: communicators that are kept belong to it.
fn library(py: Python<'_>) -> PyResult<Library> {
    static FOUND: PyOnceLock<Library> = PyOnceLock::new();
    let find = || Library::find().or_else(|error| beside(py, error));
    FOUND.get_or_try_init(py, find).copied().map_err(|error| raise(&error))
}

/// NCCL among this Python's packages, if it was nowhere else.
fn beside(py: Python<'_>, error: Error) -> nccl::Result<Library> {
    match wheel(py) {
        Ok(Some(path)) if matches!(error, Error::NotLoaded(_)) => Library::open(path),
        _ => Err(error),
    }
}

/// Where the wheels of NCCL put it.
fn wheel(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    let packages = py.import("sysconfig")?.call_method1("get_path", ("platlib",))?;
    let path = packages.extract::<PathBuf>()?.join("nvidia/nccl/lib/libnccl.so.2");
    Ok(Some(path).filter(|path| path.is_file()))
}

/// The exception for an error of NCCL's.
fn raise(error: &Error) -> PyErr {
    let text = match error.code() {
        Some(code) => format!("NCCL Error {}: {error}", code.0),
        None => error.to_string(),
    };
    exception(error.kind(), text, Vec::new())
}
