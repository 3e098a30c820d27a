//! What ranks show each other to become a communicator.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use super::error::{Error, Result};
use super::library::Library;
use super::table::RawId;

/// What ranks show each other to become a communicator: 128 bytes, made by one of them and brought to the others
/// by other means, such as a [store](crate::Store).
///
/// Whoever has it can join. It holds an address at which its maker listens.
///
/// ```
/// use consort::nccl::UniqueId;
///
/// let id = UniqueId::from_bytes(&[7; 128])?;
/// assert_eq!(id.as_bytes(), &[7; 128]);
/// let error = UniqueId::from_bytes(b"short").unwrap_err();
/// assert!(error.to_string().contains("an id has 128 bytes, not 5"));
/// # Ok::<(), consort::nccl::Error>(())
/// ```
///
/// To bring it to the others, the ranks of a group have a store:
///
/// ```
/// use std::time::Duration;
///
/// use consort::nccl::UniqueId;
/// use consort::{Deadline, Store};
///
/// /// The id, on all ranks: on the one that has made it, and on those that wait for it.
/// fn shared(
///     store: &dyn Store,
///     made: Option<&UniqueId>,
/// ) -> Result<UniqueId, Box<dyn std::error::Error>> {
///     // It is good for one communicator: the next has a key of its own.
///     let key = "nccl/id/gradients";
///     if let Some(id) = made {
///         store.set(key, id.as_bytes())?;
///     }
///     let bytes = store.get(key, Deadline::after(Duration::from_secs(60)))?;
///     Ok(UniqueId::from_bytes(&bytes)?)
/// }
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// # let made = UniqueId::from_bytes(&[7; 128])?;
/// assert_eq!(shared(&**group.store(), Some(&made))?, made);
/// assert_eq!(shared(&**group.store(), None)?, made);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Bootstrap`] makes one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; UniqueId::LEN]);

impl UniqueId {
    /// How many bytes it has.
    pub const LEN: usize = 128;

    /// An id that somebody sent.
    ///
    /// # Errors
    /// When it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = || format!("an id has {} bytes, not {}", Self::LEN, bytes.len());
        let bytes =
            bytes.try_into().map_err(|_| Error::argument("UniqueId::from_bytes", wrong()))?;
        Ok(Self(bytes))
    }

    /// What to send to the other ranks.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    pub(super) fn raw(&self) -> RawId {
        RawId(self.0)
    }
}

impl From<RawId> for UniqueId {
    fn from(RawId(bytes): RawId) -> Self {
        Self(bytes)
    }
}

/// Not the whole of it, for it lets people in.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "UniqueId({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// An id that was made here. Ranks come to this process with it, so the process has to live, and should keep this,
/// until all of them have: until a communicator was made of it here, or until [`release`](Self::release).
///
/// ```no_run
/// use consort::nccl::{Bootstrap, Comm, Library};
///
/// let library = Library::find()?;
/// let bootstrap = Bootstrap::new(library)?;
/// // … its 128 bytes go to the other ranks …
/// let comm = Comm::init_rank(library, 2, bootstrap.id(), 0)?;
/// # comm.destroy()?;
/// # Ok::<(), consort::nccl::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "ranks come to the process that made the id"]
pub struct Bootstrap {
    id: UniqueId,
}

impl Bootstrap {
    /// Makes an id. Needs no device.
    ///
    /// # Errors
    /// When NCCL cannot listen.
    pub fn new(library: Library) -> Result<Self> {
        let function = "ncclGetUniqueId";
        let (_, raw) = library.succeed(function, library.table().unique_id(), None)?;
        let id = UniqueId::from(raw);
        Self::open(id);
        Ok(Self { id })
    }

    /// An id with which others can join a communicator.
    pub(super) fn of(raw: RawId) -> Self {
        let id = UniqueId::from(raw);
        Self::open(id);
        Self { id }
    }

    /// What to bring to the other ranks.
    pub fn id(&self) -> &UniqueId {
        &self.id
    }

    /// Says that all ranks have come: for a maker that is no rank itself.
    pub fn release(self) {
        close(&self.id);
    }

    fn open(id: UniqueId) {
        waited_at().insert(id.0);
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        if close(&self.id) {
            let id = self.id;
            tracing::warn!(
                "{id:?} was made here, and dropped before a communicator was made of it; ranks that come with it \
                 find nobody once this process has ended"
            );
        }
    }
}

/// Takes notice that all ranks have come with an id. Says whether they were waited for.
pub(super) fn close(id: &UniqueId) -> bool {
    waited_at().remove(&id.0)
}

fn waited_at() -> std::sync::MutexGuard<'static, BTreeSet<[u8; UniqueId::LEN]>> {
    OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The ids that were made here, and not used yet.
static OPEN: Mutex<BTreeSet<[u8; UniqueId::LEN]>> = Mutex::new(BTreeSet::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_shown_whole() {
        let shown = format!("{:?}", UniqueId::from_bytes(&[0xab; 128]).unwrap());
        assert_eq!(shown, "UniqueId(abababab…)");
    }

    #[test]
    fn an_id_is_waited_at_until_it_was_used() {
        let id = UniqueId::from_bytes(&[0x5a; 128]).unwrap();
        let bootstrap = Bootstrap::of(id.raw());
        assert!(close(bootstrap.id()));
        assert!(!close(bootstrap.id()));
        Bootstrap::of(id.raw()).release();
        assert!(!close(&id));
    }
}
