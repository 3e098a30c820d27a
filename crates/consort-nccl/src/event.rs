//! How far streams have come.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use consort_sys::origin::Origin;

use crate::failure::{Failure, Result};
use crate::lock;
use crate::order::Order;
use crate::raw::Handle;
use crate::stream::Stream;

/// Something that happens on a stream, each time that it is recorded there.
#[derive(Debug)]
pub(crate) struct Event {
    /// Whose streams it is recorded on.
    origin: Origin,
    last: Mutex<Arc<Moment>>,
}

/// One time.
#[derive(Debug, Default)]
struct Moment {
    /// What came of all that was before it, once it has come.
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Event {
    /// A new one, which has happened.
    pub(crate) fn create() -> Handle {
        let event = Self { origin: Origin::here(), last: Mutex::default() };
        lock(&event.last).come(Ok(()));
        let mut events = lock(&EVENTS);
        events.last += 1;
        let number = FIRST + events.last * STEP;
        events.all.insert(number, Arc::new(event));
        Handle::new(number)
    }

    /// The one that C calls so.
    ///
    /// # Errors
    /// When there is none, and in a forked child, where its parent's do not happen.
    pub(crate) fn find(handle: Handle) -> Result<Arc<Self>> {
        let event = Self::known(handle)?;
        if event.origin.is_here() { Ok(event) } else { Err(Failure::forked("event")) }
    }

    fn known(handle: Handle) -> Result<Arc<Self>> {
        let events = lock(&EVENTS);
        events.all.get(&handle.number()).cloned().ok_or_else(|| {
            let number = handle.number();
            Failure::argument(format!(
                "event is {number:#x}, which was not made here, or destroyed"
            ))
        })
    }

    /// Takes it from the program. Streams that wait for it still do.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn destroy(handle: Handle) -> Result<()> {
        Self::known(handle)?;
        lock(&EVENTS).all.remove(&handle.number());
        Ok(())
    }

    /// Has it happen when all is done that a stream was given so far.
    pub(crate) fn record(&self, stream: Option<&Stream>) {
        // Nobody hears of a moment that has no place yet.
        let order = Order::take();
        let moment = Arc::<Moment>::default();
        *lock(&self.last) = moment.clone();
        match stream {
            Some(stream) => {
                let so_far = stream.so_far();
                stream.push(&order, move || {
                    moment.come(so_far());
                    Ok(())
                });
            }
            None => moment.come(Ok(())),
        }
    }

    /// Whether it has happened since it was last recorded.
    ///
    /// # Errors
    /// What went wrong on its stream before.
    pub(crate) fn has_happened(&self) -> Result<bool> {
        match &*lock(&lock(&self.last).outcome) {
            None => Ok(false),
            Some(outcome) => outcome.clone().map(|()| true),
        }
    }

    /// Has what a stream is given from now on wait for it; who has no stream waits here.
    pub(crate) fn hold(&self, stream: Option<&Stream>) {
        let moment = lock(&self.last).clone();
        match stream {
            Some(stream) => stream.push(&Order::take(), move || {
                moment.wait();
                Ok(())
            }),
            None => moment.wait(),
        }
    }
}

impl Moment {
    fn come(&self, outcome: Result<()>) {
        *lock(&self.outcome) = Some(outcome);
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut outcome = lock(&self.outcome);
        while outcome.is_none() {
            outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Keeps events as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&EVENTS))
}

/// All that C knows of.
struct Events {
    all: BTreeMap<usize, Arc<Event>>,
    last: usize,
}

static EVENTS: Mutex<Events> = Mutex::new(Events { all: BTreeMap::new(), last: 0 });
/// No stream or window has such a number.
const FIRST: usize = 0x6800_0000_0000;
const STEP: usize = 0x10;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_event_happens_when_its_stream_has_come_so_far() {
        let [one, two] = [(); 2].map(|()| Stream::create(Handle::NULL).unwrap());
        let [first, second] = [one, two].map(|handle| Stream::find(handle).unwrap().unwrap());
        let handle = Event::create();
        let event = Event::find(handle).unwrap();
        assert!(
            event.has_happened().unwrap(),
            "nobody has to wait for one that was never recorded"
        );

        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        first.push(&Order::take(), move || {
            gone.recv().unwrap();
            Ok(())
        });
        event.record(Some(&first));
        event.hold(Some(&second));
        second.push(&Order::take(), move || {
            tell.send(()).unwrap();
            Ok(())
        });
        assert!(!event.has_happened().unwrap());
        assert!(told.try_recv().is_err());
        go.send(()).unwrap();
        told.recv().unwrap();
        assert!(event.has_happened().unwrap());

        first.push(&Order::take(), || Err(Failure::usage("no")));
        event.record(Some(&first));
        while matches!(event.has_happened(), Ok(false)) {}
        assert_eq!(event.has_happened().unwrap_err().text, "no");

        Event::destroy(handle).unwrap();
        assert!(Event::destroy(handle).unwrap_err().text.contains("destroyed"));
        [one, two].into_iter().for_each(|handle| Stream::destroy(handle).unwrap());
    }

    #[test]
    fn an_event_gets_no_place_between_those_of_others() {
        let queue = Stream::create(Handle::NULL).unwrap();
        let stream = Stream::find(queue).unwrap().unwrap();
        let handle = Event::create();
        let (tell, told) = mpsc::channel();
        let order = Order::take();
        let ways: [fn(&Event, Option<&Stream>); 2] = [Event::record, Event::hold];
        let threads = ways.map(|way| {
            let (event, stream, tell) =
                (Event::find(handle).unwrap(), stream.clone(), tell.clone());
            thread::spawn(move || {
                way(&event, Some(&stream));
                tell.send(()).unwrap();
            })
        });
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "somebody has the order");
        drop(order);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stream.synchronize().unwrap();
        Event::destroy(handle).unwrap();
        Stream::destroy(queue).unwrap();
    }
}
