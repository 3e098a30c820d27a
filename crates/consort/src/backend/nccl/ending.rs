//! How communicators end. NCCL may take its time for that, and need not come back at all if a device does not: so
//! threads see to it, which are not waited for long.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::device::Device;
use crate::nccl::Comm;

/// Ends what a device does for a communicator, at once and on this rank alone.
#[cold]
pub(super) fn give_up(comm: &Arc<Comm>) {
    if comm.is_closed() {
        comm.await_end(LINGER);
        return;
    }
    let (here, there) = (comm.clone(), comm.clone());
    if !apart(move || abort(&there)) {
        abort(&here);
    }
}

/// Ends a communicator in good order, when the others do. They may need this rank's end of it for a while, for they
/// have not all done their last call.
pub(super) fn leave(comm: Arc<Comm>, device: Device) {
    let leave = move || {
        // Whoever else has it is ending it already.
        if let Some(Err(error)) = Arc::into_inner(comm).map(Comm::destroy) {
            tracing::debug!("a communicator could not be ended in good order: {error}");
        }
        drop(device);
    };
    if !apart(leave) {
        tracing::debug!("a communicator was not ended in good order: there is no thread for that");
    }
}

fn abort(comm: &Comm) {
    if let Err(error) = comm.abort() {
        tracing::warn!("the communicator of a group that has ended cannot be: {error}");
    }
}

/// Has a thread do something, and waits for it for a while. Says whether there is a thread.
fn apart(what: impl FnOnce() + Send + 'static) -> bool {
    let (tell, told) = channel::<()>();
    let act = move || {
        what();
        drop(tell);
    };
    let begun = thread::Builder::new().name("consort-device".to_owned()).spawn(act);
    if begun.is_ok() {
        // It hears that there is nobody to tell any more.
        let _ = told.recv_timeout(LINGER);
    }
    begun.is_ok()
}

/// How long NCCL is waited for.
pub(super) const LINGER: Duration = Duration::from_secs(2);
