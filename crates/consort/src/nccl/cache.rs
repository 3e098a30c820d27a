//! Communicators of one process, kept for whoever needs the same again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (library.path(), devices.to_vec());
    if let Some(comms) = kept.get(&key) {
        if comms.iter().all(|comm| comm.async_error() == Ok(Code::SUCCESS)) {
            return Ok(comms.clone());
        }
        kept.remove(&key);
    }
    let comms: Arc<[Comm]> = Comm::init_all(library, devices)?.into();
    kept.insert(key, comms.clone());
    Ok(comms)
}

/// Has the communicators of these devices made anew the next time. Those that there are end when nobody has them any
/// more.
pub fn forget(library: Library, devices: &[i32]) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.remove(&(library.path(), devices.to_vec()));
}

/// Whose communicators: of which library and which devices.
type Key = (&'static std::path::Path, Vec<i32>);

static KEPT: Mutex<BTreeMap<Key, Arc<[Comm]>>> = Mutex::new(BTreeMap::new());
