//! Symmetric memory, as Python holds it.

use consort::symm;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::group::duration;

/// A rank's hold on symmetric memory: so many bytes in the window of each rank.
///
/// Who reads and writes when is for the program to settle, with signals and barriers: tensors are laid
/// over the windows, which nothing stops.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Symmetric(symm::Symmetric<u8>);

#[pymethods]
impl Symmetric {
    /// This process's number among those that have a window.
    #[getter]
    fn rank(&self) -> u32 {
        self.0.rank().get()
    }

    /// How many windows there are.
    #[getter]
    fn world(&self) -> usize {
        self.0.world()
    }

    /// How many bytes each has.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// How many channels there are for signals.
    #[getter]
    fn channels(&self) -> usize {
        self.0.channels()
    }

    /// Where a rank's window is in this process's memory, for as long as this lives.
    fn address(&self, rank: u32) -> PyResult<usize> {
        let window = self.0.raw(rank).map_err(|error| raise(&error))?;
        Ok(window.view().as_mut_ptr().expose_provenance())
    }

    /// Raises a counter of another rank.
    fn put_signal(&self, rank: u32, channel: usize) -> PyResult<()> {
        self.0.put_signal(rank, channel).map_err(|error| raise(&error))
    }

    /// Waits until a rank has raised this one's counter, and takes it back by one.
    #[pyo3(signature = (rank, channel, seconds=None))]
    fn wait_signal(
        &self,
        py: Python<'_>,
        rank: u32,
        channel: usize,
        seconds: Option<f64>,
    ) -> PyResult<()> {
        let memory = self.within(seconds)?;
        py.detach(|| memory.wait_signal(rank, channel)).map_err(|error| raise(&error))
    }

    /// Waits until every rank has come here, on this channel.
    #[pyo3(signature = (channel, seconds=None))]
    fn barrier(&self, py: Python<'_>, channel: usize, seconds: Option<f64>) -> PyResult<()> {
        let memory = self.within(seconds)?;
        py.detach(|| memory.barrier(channel)).map_err(|error| raise(&error))
    }
}

impl Symmetric {
    pub(crate) fn new(memory: symm::Symmetric<u8>) -> Self {
        Self(memory)
    }

    fn within(&self, seconds: Option<f64>) -> PyResult<symm::Symmetric<u8>> {
        match seconds {
            None => Ok(self.0.clone()),
            Some(seconds) => Ok(self.0.within(duration(seconds)?)),
        }
    }
}
