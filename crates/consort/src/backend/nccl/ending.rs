//! How communicators end. NCCL may take its time for that, and need not come back at all if a device does not: so
//! threads see to it, which are not waited for long.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::lock;
use crate::device::Device;
use crate::nccl::Comm;

/// Ends what a device does for communicators, at once and on this rank alone.
#[cold]
pub(super) fn give_up<'a>(device: &Device, comms: impl IntoIterator<Item = &'a Arc<Comm>>) {
    let (comms, until): (Vec<_>, _) = (comms.into_iter().collect(), Instant::now() + LINGER);
    let begun: Vec<_> = comms.iter().map(|&comm| begin_to_abort(device, comm)).collect();
    for (comm, abort) in comms.into_iter().zip(begun) {
        match abort {
            Some(abort) => abort.wait(until),
            None => {
                comm.await_end(until.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// `None` if there is nothing more to do than to wait for whoever is at it.
fn begin_to_abort(device: &Device, comm: &Arc<Comm>) -> Option<Apart> {
    if comm.is_closed() {
        return None;
    }
    let here = |comm| device.end_inside(|| abort(comm));
    Apart::begin(device, comm.clone(), abort).map_err(here).ok()
}

fn abort(comm: Arc<Comm>) {
    if let Err(error) = comm.abort() {
        tracing::warn!("the communicator of a group that has ended cannot be: {error}");
    }
}

/// Ends a communicator in good order, when the others do. They may need this rank's end of it for a while, for they
/// have not all done their last call.
pub(super) fn leave(comm: Arc<Comm>, device: &Device) {
    let leave = |comm: Arc<Comm>| {
        // Whoever else has it is ending it already.
        if let Some(Err(error)) = Arc::into_inner(comm).map(Comm::destroy) {
            tracing::debug!("a communicator could not be ended in good order: {error}");
        }
    };
    match Apart::begin(device, comm, leave) {
        Ok(leaving) => leaving.wait(Instant::now() + LINGER),
        Err(comm) => {
            tracing::debug!("a communicator is not ended in good order: there is no thread");
            device.end_inside(|| drop(comm));
        }
    }
}

/// Something of a device's that is ended on a thread of its own.
pub(super) struct Apart {
    /// Says nothing until it is done.
    told: Receiver<()>,
}

impl Apart {
    /// Gives back what it is to be done with if the system has no more threads.
    pub(super) fn begin<T: Send + 'static>(
        device: &Device,
        with: T,
        act: fn(T),
    ) -> Result<Self, T> {
        let (tell, told) = channel();
        let here = Arc::new(Mutex::new(Some(with)));
        let (there, device) = (here.clone(), device.clone());
        let body = move || {
            let with = lock(&there).take();
            device.end_inside(|| with.into_iter().for_each(act));
            drop(tell);
        };
        match thread::Builder::new().name("consort-device".to_owned()).spawn(body) {
            Ok(_) => Ok(Self { told }),
            Err(_) => Err(lock(&here).take().expect("no thread has taken it")),
        }
    }

    /// Waits until it is done, or until then.
    pub(super) fn wait(self, until: Instant) {
        // It hears that there is nobody to tell any more.
        let _ = self.told.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// How long NCCL is waited for.
pub(super) const LINGER: Duration = Duration::from_secs(2);
