//! What compression has kept back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What was lost of each parameter's gradient on this rank, to be added to its next one.
///
/// It belongs to parameters, not to buckets: those are made anew after the first pass.
#[derive(Debug)]
pub(crate) struct Residues<T>(Mutex<HashMap<usize, Vec<T>>>);

impl<T> Residues<T> {
    /// Takes out what is there of a parameter.
    pub(crate) fn take(&self, parameter: usize) -> Option<Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&parameter)
    }

    /// Keeps something until the next pass.
    pub(crate) fn keep(&self, parameter: usize, residue: Vec<T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(parameter, residue);
    }
}

impl<T> Default for Residues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
