//! What is kept from pass to pass.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::grouping::Block;
use super::matrix::{Real, orthonormalise};
use super::settings::Settings;
use crate::chance::Chance;
use crate::hook::residues::Residues;

/// What is known of matrices from earlier passes.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    pub(crate) residues: Residues<T>,
    /// The right columns of each matrix in its last pass, by the parameters in it: the same on every rank.
    rights: Mutex<HashMap<Vec<usize>, Vec<T>>>,
}

impl<T: Real> Kept<T> {
    /// The right columns to begin with, perpendicular: those of the last pass, or else some by chance.
    pub(crate) fn right(&self, block: &Block, pass: u64, settings: &Settings) -> Vec<T> {
        let first = block.parameters[0] as u64;
        let mut chance = Chance::of([settings.seed, pass, first]);
        let known =
            self.rights.lock().unwrap_or_else(PoisonError::into_inner).remove(&block.parameters);
        let by_chance = |_| T::near(chance.number());
        let mut right = known.unwrap_or_else(|| (0..block.shape.right()).map(by_chance).collect());
        // A direction in which there was nothing would never be looked at again.
        orthonormalise(&mut right, block.shape.cols, Some(&mut chance));
        right
    }

    /// Keeps the right columns of a matrix for the next pass, unless they are of no use.
    pub(crate) fn keep_right(&self, block: &Block, right: &[T]) {
        if is_finite(right) {
            let mut rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
            rights.insert(block.parameters.clone(), right.to_vec());
        }
    }

    /// Keeps what was lost of a parameter's gradient for the next pass, unless it would spoil that.
    pub(crate) fn keep_residue(&self, parameter: usize, residue: &[T]) {
        if is_finite(residue) {
            self.residues.keep(parameter, residue.to_vec());
        }
    }
}

fn is_finite<T: Real>(numbers: &[T]) -> bool {
    numbers.iter().all(|&number| number.into().is_finite())
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { residues: Residues::default(), rights: Mutex::default() }
    }
}
