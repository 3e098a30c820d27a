//! The job's store, as Python holds it.

use std::sync::Arc;

use consort::{Deadline, Store as _, Swap};
use pyo3::prelude::*;

use crate::errors::raise_of_store;
use crate::group::duration;

/// A small table of keys and bytes that all ranks of the job share.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Store(Arc<dyn consort::Store>);

#[pymethods]
impl Store {
    /// Creates or replaces a value.
    fn set(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.set(key, value)).map_err(|error| raise_of_store(&error))
    }

    /// Reads a value, and waits so many seconds for it to appear.
    fn get(&self, py: Python<'_>, key: &str, seconds: f64) -> PyResult<Vec<u8>> {
        let until = Deadline::after(duration(seconds)?);
        py.detach(|| self.0.get(key, until)).map_err(|error| raise_of_store(&error))
    }

    /// Adds to a number, and gives the sum.
    fn add(&self, py: Python<'_>, key: &str, delta: i64) -> PyResult<i64> {
        py.detach(|| self.0.add(key, delta)).map_err(|error| raise_of_store(&error))
    }

    /// Replaces a value if it is as expected, or missing if `None` is. Gives what is there then, or
    /// `None` if there is nothing.
    fn compare_set(
        &self,
        py: Python<'_>,
        key: &str,
        expect: Option<&[u8]>,
        new: &[u8],
    ) -> PyResult<Option<Vec<u8>>> {
        let swap = py.detach(|| self.0.compare_set(key, expect, new));
        match swap.map_err(|error| raise_of_store(&error))? {
            Swap::Swapped => Ok(Some(new.to_vec())),
            Swap::Differs(value) => Ok(Some(value)),
            Swap::Missing => Ok(None),
        }
    }

    /// Waits so many seconds until all keys exist.
    fn wait(&self, py: Python<'_>, keys: Vec<String>, seconds: f64) -> PyResult<()> {
        let until = Deadline::after(duration(seconds)?);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        py.detach(|| self.0.wait(&keys, until)).map_err(|error| raise_of_store(&error))
    }

    /// Whether all keys exist.
    fn check(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<bool> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        py.detach(|| self.0.check(&keys)).map_err(|error| raise_of_store(&error))
    }

    /// Removes a key, and says whether it was there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        py.detach(|| self.0.delete(key)).map_err(|error| raise_of_store(&error))
    }

    /// How many keys there are.
    fn num_keys(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.0.num_keys()).map_err(|error| raise_of_store(&error))
    }

    /// Adds bytes to the end of a value.
    fn append(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        py.detach(|| self.0.append(key, value)).map_err(|error| raise_of_store(&error))
    }
}

impl Store {
    pub(crate) fn new(store: Arc<dyn consort::Store>) -> Self {
        Self(store)
    }
}
