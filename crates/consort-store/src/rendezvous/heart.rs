//! The sign of life that a node gives, and what it learns from giving it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::seat::{Ask, Silence, at_once, count};
use crate::deadline::clock_now;
use crate::error::{Error, Result};
use crate::member::Pulse;
use crate::store::Store;

/// Beats in a thread of its own: adds to a count in the store until it is dropped.
#[derive(Debug)]
pub(super) struct Heart {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Starts to beat, several times within the time that a node may be silent.
    pub(super) fn start(
        store: Arc<dyn Store>,
        key: String,
        liveness: Duration,
        silence: &Silence,
    ) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut beats = Beats::new(key, liveness, silence);
        let beat = move || {
            while at_once(beats.beat(&store))
                && stopped.recv_timeout(beats.pause()) == Err(RecvTimeoutError::Timeout)
            {
            }
        };
        let thread = std::thread::Builder::new()
            .name("consort-heart".to_owned())
            .spawn(beat)
            .map_err(|source| Error::System {
                doing: "starting the heart's thread",
                source: source.into(),
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// What beats, without a thread.
#[derive(Debug)]
pub(super) struct Beats {
    key: String,
    liveness: Duration,
    /// The store's own, which answers as long as it lives.
    pulse: Pulse,
    count: i64,
    silence: Silence,
}

impl Beats {
    pub(super) fn new(key: String, liveness: Duration, silence: &Silence) -> Self {
        let pulse = Pulse::new(clock_now(), liveness / 2);
        Self { key, liveness, pulse, count: 0, silence: silence.clone() }
    }

    /// Beats once. Whether it makes sense to go on.
    pub(super) async fn beat(&mut self, store: &impl Ask) -> bool {
        match count(store, &self.key, 1).await {
            Ok(count) => self.count = count,
            // Whoever watches the store notices too, and tells.
            Err(Error::Lost { .. }) => return false,
            Err(_) => {}
        }
        self.silence.set(self.pulse.hear(clock_now(), self.count));
        true
    }

    /// How long it is to the next beat.
    pub(super) fn pause(&self) -> Duration {
        self.liveness / 5
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::deadline::Deadline;
    use crate::error::Missing;
    use crate::mem::MemStore;
    use crate::request::{Reply, Request};

    /// Does what it is told, call by call, and says when the next one comes.
    #[derive(Debug)]
    struct Told {
        store: MemStore,
        calls: mpsc::Sender<()>,
        orders: Mutex<mpsc::Receiver<Duration>>,
    }

    impl Store for Told {
        fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
            let _ = self.calls.send(());
            match self.orders.lock().unwrap().recv() {
                Ok(Duration::ZERO) => self.store.call(request, until),
                Ok(nap) => {
                    std::thread::sleep(nap);
                    Err(Error::Timeout { verb: "add", waited: nap, missing: Missing::default() })
                }
                Err(mpsc::RecvError) => {
                    Err(Error::Lost { peer: "test".to_owned(), reason: "over".to_owned() })
                }
            }
        }

        fn duplicate(&self) -> Result<Arc<dyn Store>> {
            self.store.duplicate()
        }
    }

    #[test]
    fn a_long_stop_counts_as_a_short_silence_and_an_answer_ends_it() {
        let liveness = Duration::from_millis(200);
        let (calls, called) = mpsc::channel();
        let (order, orders) = mpsc::channel();
        let store = Told { store: MemStore::new(), calls, orders: Mutex::new(orders) };
        let felt = Silence::default();
        let _heart = Heart::start(Arc::new(store), "beat".to_owned(), liveness, &felt).unwrap();
        let silence_after = |what: Duration| {
            called.recv().unwrap();
            order.send(what).unwrap();
            called.recv().unwrap();
            let silence = felt.get();
            order.send(Duration::ZERO).unwrap();
            silence
        };
        silence_after(Duration::ZERO);
        let silence = silence_after(liveness * 5);
        assert!(silence > Duration::ZERO && silence < liveness, "{silence:?}");
        assert_eq!(silence_after(Duration::ZERO), Duration::ZERO);
        drop(order);
    }
}
