//! What can happen while ranks run, in one queue.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use consort_store::{Error as StoreError, News};
use rustix::process::Pid;

use super::signals::asks_to_end;
use super::status::Status;

/// Something the launcher has to know.
#[derive(Debug)]
pub(crate) enum Event {
    /// A rank's process ended.
    Exited(Exit),
    /// A local rank is to be ended for MPI's sake, in the round of this number.
    EndedByMpi(u64, u32),
    /// The launcher got a signal.
    Signal(i32),
    /// Our own output cannot be written any more, because nobody reads it or for a worse reason.
    OutputClosed(io::Error),
    /// All output of the ranks has been passed on.
    OutputDone,
    /// What the other hosts have to say about the round of this number.
    News(u64, Result<News, StoreError>),
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Which process. It is not reaped yet, so the number is nobody else's.
    pub(crate) process: Pid,
    /// How it ended.
    pub(crate) status: Status,
    /// When it was seen to.
    pub(crate) at: Instant,
}

/// The queue of events. Whoever finds one that is not for it puts it back for the next reader.
#[derive(Debug)]
pub(crate) struct Inbox {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    put_back: VecDeque<Event>,
    asked_to_end: bool,
}

impl Inbox {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver, put_back: VecDeque::new(), asked_to_end: false }
    }

    /// An end to send events into, for a thread.
    pub(crate) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Event {
        let event = match self.put_back.pop_front() {
            Some(event) => event,
            None => self.receiver.recv().expect("the inbox itself holds a sender"),
        };
        self.hand_out(event)
    }

    /// Waits for the next event until `moment`.
    pub(crate) fn next_until(&mut self, moment: Instant) -> Option<Event> {
        if let Some(event) = self.put_back.pop_front() {
            return Some(self.hand_out(event));
        }
        match self.receiver.recv_timeout(moment.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(self.hand_out(event)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the inbox itself holds a sender"),
        }
    }

    /// Gives events back, to be read before all others.
    pub(crate) fn put_back(&mut self, events: Vec<Event>) {
        for event in events.into_iter().rev() {
            self.put_back.push_front(event);
        }
    }

    /// Whether a signal of this kind waits here.
    pub(crate) fn has_signal(&mut self, is_wanted: impl Fn(i32) -> bool) -> bool {
        self.fetch();
        self.put_back.iter().any(|event| matches!(event, Event::Signal(it) if is_wanted(*it)))
    }

    /// Takes the first signal that waits here, whatever waits before it.
    pub(crate) fn take_signal(&mut self) -> Option<i32> {
        self.fetch();
        let place = self.put_back.iter().position(|event| matches!(event, Event::Signal(_)))?;
        match self.put_back.remove(place).map(|event| self.hand_out(event)) {
            Some(Event::Signal(signal)) => Some(signal),
            _ => unreachable!("a signal is at this place"),
        }
    }

    /// Whether a signal has asked the launcher to end, handed out already or not.
    pub(crate) fn was_asked_to_end(&mut self) -> bool {
        self.asked_to_end || self.has_signal(asks_to_end)
    }

    fn hand_out(&mut self, event: Event) -> Event {
        self.asked_to_end |= matches!(event, Event::Signal(signal) if asks_to_end(signal));
        event
    }

    /// Takes what was sent so far out of the channel, where it cannot be looked at.
    fn fetch(&mut self) {
        self.put_back.extend(self.receiver.try_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_were_put_back_come_first_and_in_order() {
        let mut inbox = Inbox::new();
        for signal in [1, 2, 3] {
            inbox.sender().send(Event::Signal(signal)).unwrap();
        }
        let early = vec![inbox.next(), inbox.next()];
        inbox.put_back(early);
        let order: Vec<_> = (0..3)
            .map(|_| match inbox.next() {
                Event::Signal(signal) => signal,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(inbox.next_until(Instant::now()).is_none());
    }

    #[test]
    fn a_signal_is_found_behind_other_events() {
        let mut inbox = Inbox::new();
        inbox.sender().send(Event::OutputClosed(io::ErrorKind::BrokenPipe.into())).unwrap();
        inbox.sender().send(Event::Signal(15)).unwrap();
        assert!(inbox.has_signal(|signal| signal == 15));
        assert!(!inbox.has_signal(|signal| signal == 2));
        assert_eq!(inbox.take_signal(), Some(15));
        assert_eq!(inbox.take_signal(), None);
        assert!(matches!(inbox.next(), Event::OutputClosed(_)));
    }

    #[test]
    fn it_is_remembered_that_a_signal_asked_to_end() {
        let mut inbox = Inbox::new();
        inbox.sender().send(Event::Signal(signal_hook::consts::SIGUSR1)).unwrap();
        assert!(!inbox.was_asked_to_end());
        inbox.sender().send(Event::Signal(signal_hook::consts::SIGTERM)).unwrap();
        assert!(inbox.was_asked_to_end());
        inbox.next();
        inbox.next();
        assert!(inbox.was_asked_to_end());
    }
}
