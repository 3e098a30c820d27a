//! How a call fits in with what streams of its device do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Event;

/// After what a call begins on its device, and who is told when it has been given to it.
///
/// Nothing said, it begins after all that the device's default stream was given before it was given to the device,
/// and nobody is told. It is what an [`OwnedCall`](crate::OwnedCall) has that knows of streams, as
/// [those on devices](super::calls::OnDevice) do.
#[derive(Debug, Default)]
pub struct Streams {
    after: Option<Event>,
    told: Option<Sender<Arc<Event>>>,
}

impl Streams {
    /// Has the call begin after this event, and not wait for the default stream.
    pub fn begin_after(&mut self, event: Event) {
        self.after = Some(event);
    }

    /// Tells when the call has been given to the device.
    pub fn launched(&mut self) -> Launched {
        let (told, launched) = channel();
        self.told = Some(told);
        Launched(launched)
    }

    /// After what the call begins, if that was said.
    pub(crate) fn after(&self) -> Option<&Event> {
        self.after.as_ref()
    }

    /// The call has been given to the device, which is done with it when this happens.
    pub(crate) fn tell(&mut self, done: &Arc<Event>) {
        if let Some(told) = self.told.take() {
            // Nobody may want to know any more.
            let _ = told.send(done.clone());
        }
    }
}

/// That a call has been given to its device, which is known sooner than that it is done.
#[derive(Debug)]
#[must_use = "it is to be waited for"]
pub struct Launched(Receiver<Arc<Event>>);

impl Launched {
    /// Waits until all ranks have come to the call, and it has been given to the device: not until the device is done
    /// with it, which is when the event happens that this gives. Streams that [wait](super::Stream::wait_for) for it
    /// find what the call leaves. `None` if the call ended before, or there was nothing to do on the device: its
    /// work says how.
    pub fn wait(self) -> Option<Arc<Event>> {
        self.0.recv().ok()
    }
}
