//! What can go wrong when gradients are reduced.

use std::fmt;

use consort::device::DeviceError;
use consort::{Dtype, ErrorKind};

/// The result of every call of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. [`kind`](Error::kind) sorts the variants into the few cases that code acts on.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group has failed, or what it was asked for makes no sense.
    #[error(transparent)]
    Group(#[from] consort::Error),

    /// A device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),

    /// A call that makes no sense.
    #[error("{0}")]
    Argument(String),

    /// A layout that a gradient cannot have.
    #[error(
        "parameter {name:?} of shape {shape:?} cannot have the strides {strides:?}: its elements have \
         to fill their memory, each at its own place"
    )]
    Layout {
        /// Whose.
        name: String,
        /// How many elements there are in each dimension.
        shape: Vec<usize>,
        /// How far apart they would be.
        strides: Vec<usize>,
    },

    /// Ranks have different parameters, or treat them differently.
    #[error("the ranks do not train the same model\n{differences}")]
    Differs {
        /// Which ranks have what.
        differences: String,
    },

    /// A gradient is not what its parameter says.
    #[error(
        "the gradient of parameter {name:?} is {given} elements of {given_dtype}, and should be \
         {expected} of {dtype}{by_rows}"
    )]
    Gradient {
        /// Whose.
        name: String,
        /// How many elements were given.
        given: usize,
        /// Of which dtype.
        given_dtype: Dtype,
        /// How many there should be.
        expected: usize,
        /// Of which dtype.
        dtype: Dtype,
        /// How it should come, if not as a whole.
        by_rows: &'static str,
    },

    /// A parameter's gradient came a second time in one pass.
    #[error(
        "the gradient of parameter {name:?} came twice in one pass: a parameter that is used in several \
         places has to be reported once, with the sum; in a graph where that is not possible, say how \
         often it comes by Options::static_graph"
    )]
    Twice {
        /// Whose.
        name: String,
    },

    /// Something came after the pass it belongs to.
    #[error(
        "{what} of a backward pass that is over (pass {pass}, now it is pass {now}): every backward needs \
         a pass of its own, which Reducer::begin gives"
    )]
    Over {
        /// What came.
        what: &'static str,
        /// Which pass it belongs to.
        pass: u64,
        /// The one that runs, or ran last.
        now: u64,
    },

    /// A pass was begun while there is another.
    #[error(
        "pass {pass} has begun, and neither is it finished or dropped nor are its averages (Reduced): one \
         backward pass is reduced after the other; let several forward passes share one pass, or use Reducer::begin_local for those that \
         only add to the gradients"
    )]
    Pending {
        /// Which one.
        pass: u64,
    },

    /// Parameters got no gradient, and that is not allowed.
    #[error(
        "pass {pass}: no gradient came for {}: every parameter has to have a part in the loss on every \
         rank, or Unused::Average has to be said", names(.missing)
    )]
    Unused {
        /// In which pass.
        pass: u64,
        /// Whose.
        missing: Vec<String>,
    },

    /// The graph is not what it was in the first pass.
    #[error(
        "pass {pass}: the gradient of parameter {name:?} came {came} times, and {expected} times in the first \
         one that was averaged: a graph that changes is not static"
    )]
    Changed {
        /// In which pass.
        pass: u64,
        /// Whose.
        name: String,
        /// How often it came.
        came: u32,
        /// How often it should.
        expected: u32,
    },

    /// A communication hook has failed, or given back what it should not. The group has ended for all.
    #[error("the communication hook {hook} failed on bucket {bucket}: {reason}")]
    Hook {
        /// Which.
        hook: String,
        /// With which bucket.
        bucket: usize,
        /// Why.
        reason: String,
    },

    /// Something could not be done on one rank, so that all have given it up.
    #[error("rank {rank} cannot {what}: {reason}")]
    Elsewhere {
        /// Which.
        rank: usize,
        /// What all were to do.
        what: &'static str,
        /// Why not.
        reason: String,
    },

    /// A parameter was changed, and the model still computes with what it was before.
    #[error(
        "parameter {name:?} is not what the model computes with: have DistributedDataParallel::step or \
         backward_step call the optimizer, or call refresh after parameters were changed by other means"
    )]
    Stale {
        /// The first one.
        name: String,
    },

    /// A loss was computed with the variable of a parameter, past what the model was given for it.
    #[error(
        "the loss was computed with the variable of parameter {name:?}, whose gradient nobody averages: \
         compute with the tensor that the model has of it (which its VarBuilder gave), not with the Var"
    )]
    Bypassed {
        /// The first one.
        name: String,
    },

    /// A parameter is not the same on all ranks.
    #[error(
        "parameter {name:?} is not the same on all ranks: the same numbers have ranks {}; \
         DistributedDataParallel::broadcast gives all those of one rank", .camps.join(" / ")
    )]
    Diverged {
        /// The first one.
        name: String,
        /// Ranks that have the same numbers, each time.
        camps: Vec<String>,
    },

    /// What candle says.
    #[cfg(feature = "candle")]
    #[error("{0}")]
    Candle(std::sync::Arc<candle_core::Error>),

    /// An earlier failure has left the reducer without its memory.
    #[error(
        "this reducer has failed before ({first}): give it the group of those that are left with \
         Reducer::set_group"
    )]
    Failed {
        /// What failed.
        first: String,
        /// The case that it belongs to.
        kind: ErrorKind,
    },
}

impl Error {
    /// The case this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Group(error) => error.kind(),
            Self::Device(DeviceError::Length { .. } | DeviceError::Elsewhere { .. }) => {
                ErrorKind::Mistake
            }
            Self::Device(_) => ErrorKind::System,
            Self::Argument(_)
            | Self::Layout { .. }
            | Self::Gradient { .. }
            | Self::Twice { .. }
            | Self::Over { .. }
            | Self::Pending { .. }
            | Self::Unused { .. }
            | Self::Changed { .. }
            | Self::Elsewhere { .. }
            | Self::Stale { .. }
            | Self::Bypassed { .. } => ErrorKind::Mistake,
            #[cfg(feature = "candle")]
            Self::Candle(_) => ErrorKind::Mistake,
            Self::Differs { .. } | Self::Diverged { .. } => ErrorKind::Mismatch,
            Self::Hook { .. } => ErrorKind::Aborted,
            Self::Failed { kind, .. } => *kind,
        }
    }
}

impl fmt::Debug for Error {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Some of many names.
fn names(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} others", shown.join(", ")),
    }
}

const SHOWN: usize = 12;
