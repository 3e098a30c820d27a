//! Communicators of one process, kept for whoever needs the same again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::code::Code;
use super::comm::Comm;
use super::error::Result;
use super::library::Library;

/// The communicators of some devices of this process, in this order: those that were [made](Comm::init_all) the last
/// time, as long as they are well. They are kept until they are [forgotten](forget), or the process ends, which ends
/// them too.
///
/// ```no_run
/// use consort::nccl::{self, Library};
///
/// let library = Library::find()?;
/// let comms = nccl::cached(library, &[0, 1])?;
/// assert_eq!((comms[1].rank(), comms[1].world()), (1, 2));
/// # Ok::<(), consort::nccl::Error>(())
/// ```
///
/// # Errors
/// As [`Comm::init_all`].
pub fn cached(library: Library, devices: &[i32]) -> Result<Arc<[Comm]>> {
    let key = (library.path(), devices.to_vec());
    let place = kept().entry(key).or_default().clone();
    // Whoever makes those of other devices does not wait for these.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let is_well = |comm: &Comm| comm.async_error() == Ok(Code::SUCCESS);
    if let Some(comms) = place.as_ref().filter(|comms| comms.iter().all(is_well)) {
        return Ok(comms.clone());
    }
    // Those that are not well end first.
    *place = None;
    let comms: Arc<[Comm]> = Comm::init_all(library, devices)?.into();
    Ok(place.insert(comms).clone())
}

/// Has the communicators of these devices made anew the next time. Those that there are end when nobody has them any
/// more.
pub fn forget(library: Library, devices: &[i32]) {
    let forgotten = kept().remove(&(library.path(), devices.to_vec()));
    // They may end here, and nobody else waits for that.
    drop(forgotten);
}

fn kept() -> MutexGuard<'static, BTreeMap<Key, Place>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose communicators: of which library and which devices.
type Key = (&'static std::path::Path, Vec<i32>);

/// Where they are kept. Whoever has the lock makes them.
type Place = Arc<Mutex<Option<Arc<[Comm]>>>>;

static KEPT: Mutex<BTreeMap<Key, Place>> = Mutex::new(BTreeMap::new());
