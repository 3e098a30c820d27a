//! How gradients are reduced.

use std::fmt;

use consort::Dtype;

use crate::assign::Caps;
use crate::hook::{Average, CommHook};

/// How a [`Reducer`](crate::Reducer) works. What is not said is as good for most.
///
/// ```
/// use consort_train::{Caps, Options, Unused};
///
/// let options = Options::new().caps(Caps::of(4 << 20)?).unused(Unused::Refuse);
/// # Ok::<(), consort_train::Error>(())
/// ```
#[must_use]
pub struct Options {
    pub(crate) caps: Caps,
    pub(crate) unused: Unused,
    pub(crate) is_static: bool,
    pub(crate) reduce_as: Option<Dtype>,
    pub(crate) hook: Box<dyn CommHook>,
}

/// What becomes of a parameter for which no gradient came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unused {
    /// If one came on any other rank, it gets the average, with zeroes for the ranks where none came. If
    /// none came anywhere, it has none, and is to be left as it is. Ranks tell each other which came with
    /// one bit for each parameter, behind the last bucket.
    #[default]
    Average,
    /// It is an error on every rank that names the parameters.
    Refuse,
}

impl Options {
    /// Buckets of 1 and then 25 MiB, averaged as they are.
    pub fn new() -> Self {
        Self {
            caps: Caps::default(),
            unused: Unused::default(),
            is_static: false,
            reduce_as: None,
            hook: Box::new(Average),
        }
    }

    /// How large buckets are.
    pub fn caps(self, caps: Caps) -> Self {
        Self { caps, ..self }
    }

    /// What becomes of a parameter for which no gradient came.
    pub fn unused(self, unused: Unused) -> Self {
        Self { unused, ..self }
    }

    /// Says that in every pass the gradient of each parameter comes as often as in the first one, in
    /// parts that are to be added up: for graphs in which a parameter is used in several places that are
    /// differentiated one by one. In the first pass nothing travels before its end.
    pub fn static_graph(self) -> Self {
        Self { is_static: true, ..self }
    }

    /// Keeps and adds up gradients as numbers of this dtype, whatever they are: as `f32` where gradients
    /// of 16 bits would lose too much when they are added.
    pub fn reduce_as(self, dtype: Dtype) -> Self {
        Self { reduce_as: Some(dtype), ..self }
    }

    /// How buckets are averaged.
    pub fn hook(self, hook: impl CommHook + 'static) -> Self {
        Self { hook: Box::new(hook), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caps, unused, is_static, reduce_as, hook } = self;
        f.debug_struct("Options")
            .field("caps", caps)
            .field("unused", unused)
            .field("static_graph", is_static)
            .field("reduce_as", reduce_as)
            .field("hook", &hook.name())
            .finish()
    }
}
