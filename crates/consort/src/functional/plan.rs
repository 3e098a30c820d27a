//! A call that was looked at: what goes in, and what comes out.

use super::collective::Collective;
use super::meta::Meta;
use super::value::Value;
use crate::call::{Description, Purpose};
use crate::error::{Error, Result};
use crate::group::Group;

/// What is to be done with a value of a rank.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) collective: Collective,
    /// What goes in.
    pub(super) x: Meta,
    /// What comes out.
    pub(super) y: Meta,
    /// Through which call on values a gradient goes back, if it is for one.
    pub(super) back_through: Option<u64>,
}

impl Plan {
    /// # Errors
    /// When the call makes no sense.
    pub(super) fn new(collective: Collective, value: &impl Value, group: &Group) -> Result<Self> {
        Self::of(collective, value.meta()?, group)
    }

    /// The same, of what is known of a value.
    pub(super) fn of(collective: Collective, x: Meta, group: &Group) -> Result<Self> {
        // In a forked child nothing makes sense.
        group.backend()?;
        let y = collective.meta(&x, group.rank(), group.world())?;
        Ok(Self { collective, x, y, back_through: None })
    }

    /// What it is for.
    pub(super) fn purpose(&self) -> Purpose {
        if self.back_through.is_some() { Purpose::Gradient } else { Purpose::Program }
    }

    /// A word that stands for what ranks have to agree on beside the number of elements. Nothing for a row of
    /// the program's: it may meet a slice.
    pub(super) fn digest(&self) -> u32 {
        let (shape, dim) = match self.collective {
            Collective::AllGather { dim } | Collective::ReduceScatter { dim, .. } => {
                (&self.x.shape[..], dim)
            }
            // How many rows there are is everyone's own.
            Collective::AllToAllUneven { .. } => (&self.x.shape[1..], 0),
            _ => (&self.x.shape[..], 0),
        };
        if self.x.shape.len() < 2 && self.back_through.is_none() {
            return 0;
        }
        let number = self.back_through.unwrap_or(0) as usize;
        let words = [number, dim, shape.len()].into_iter().chain(shape.iter().copied());
        Description::digest_of(words)
    }

    /// Makes sure that a value has room for what comes out.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check_room(&self, out: &Meta) -> Result<()> {
        if *out == self.y {
            return Ok(());
        }
        let (name, y) = (self.collective.name(), &self.y);
        Err(Error::Argument(format!("{name}: what comes out is {y}, and there is room for {out}")))
    }

    /// The dimension along which values that were gathered have to be joined, if they do not lie so
    /// already.
    pub(super) fn joined_along(&self) -> Option<usize> {
        match self.collective {
            Collective::AllGather { dim } if self.x.around(dim).0 != 1 => Some(dim),
            _ => None,
        }
    }

    /// Whether values change hands by messages.
    pub(super) fn is_message(&self) -> bool {
        matches!(self.collective, Collective::Permute { .. })
    }
}
