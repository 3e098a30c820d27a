//! Streams that do not get on for as long as a test wants.

use consort::device::{Event, Memory, Stream};
use consort::nccl::{self, Bootstrap, Comm, Library, UniqueId};
use consort::{Dtype, Group};

use crate::stage::device;

/// A communicator beside the group, whose messages hold up a stream for as long as a test wants.
pub(crate) fn beside(group: &Group) -> Comm {
    let library = Library::find().unwrap();
    let made = (group.rank() == 0).then(|| Bootstrap::new(library).unwrap());
    let mut id = made.as_ref().map_or([0; UniqueId::LEN], |made| *made.id().as_bytes());
    group.broadcast(&mut id, 0).unwrap();
    let id = UniqueId::from_bytes(&id).unwrap();
    Comm::init_rank(library, 2, &id, group.rank().get()).unwrap()
}

/// A stream of rank 0 that waits for a message of rank 1, which does not come before the communicator ends.
pub(crate) struct Held {
    comm: Comm,
    stream: Stream,
    _message: Memory,
}

impl Held {
    /// Both ranks of a group make it.
    pub(crate) fn new(group: &Group) -> Self {
        let (comm, device) = (beside(group), device(group));
        let (stream, mut message) = (device.stream().unwrap(), device.allocate(8).unwrap());
        if group.rank() == 0 {
            // SAFETY: the stream lives until the communicator has ended.
            let held = unsafe { nccl::Stream::from_raw(stream.as_raw()) };
            // SAFETY: the memory is left alone until then.
            unsafe { comm.recv(message.target(), Dtype::U8, 1, held) }.unwrap();
        }
        Self { comm, stream, _message: message }
    }

    /// What happens when the stream gets on.
    pub(crate) fn event(&self) -> Event {
        self.stream.record().unwrap()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.comm.abort();
    }
}
