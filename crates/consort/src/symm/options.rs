//! What can be said about symmetric memory beside its size.

/// How to make symmetric memory.
///
/// ```
/// use consort::symm::Options;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let options = Options::new().channels(2).persistent("activations");
/// let memory = group.symmetric_with::<f32>(256, &options)?;
/// memory.local()?[0] = 7.0;
/// drop(memory);
/// // Its id was kept, and so was what it holds.
/// assert_eq!(group.symmetric_with::<f32>(256, &options)?.local()?[0], 7.0);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) channels: usize,
    pub(super) id: Option<String>,
}

impl Options {
    /// Memory of its own, with 16 channels.
    pub fn new() -> Self {
        Self { channels: CHANNELS, id: None }
    }

    /// How many channels there are for signals.
    #[must_use]
    pub fn channels(self, channels: usize) -> Self {
        Self { channels, ..self }
    }

    /// Keeps the memory under this id when its handle is dropped: who asks for it again gets the
    /// same, with what it holds. [`Group::release_symmetric`](crate::Group::release_symmetric) lets
    /// it go.
    #[must_use]
    pub fn persistent(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Each takes a cache line of every rank for every rank.
const CHANNELS: usize = 16;
