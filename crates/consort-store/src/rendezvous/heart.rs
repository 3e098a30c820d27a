//! The sign of life that a node gives, and what it learns from giving it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::deadline::clock_now;
use crate::error::{Error, Result};
use crate::store::Store;

/// Beats in a thread of its own: adds to a count in the store until it is dropped.
#[derive(Debug)]
pub(super) struct Heart {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    answered: Arc<Mutex<Instant>>,
}

impl Heart {
    pub(super) fn start(store: Arc<dyn Store>, key: String, every: Duration) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(clock_now()));
        let felt = answered.clone();
        let beat = move || {
            loop {
                match store.add(&key, 1) {
                    Ok(_) => *felt.lock().unwrap_or_else(PoisonError::into_inner) = clock_now(),
                    // Whoever watches the store notices too, and tells.
                    Err(Error::Lost { .. }) => return,
                    Err(_) => {}
                }
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("consort-heart".to_owned())
            .spawn(beat)
            .map_err(|source| Error::System { doing: "starting the heart's thread", source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), answered })
    }

    /// For how long the store has not answered a beat.
    pub(super) fn silence_of_store(&self) -> Duration {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        clock_now().saturating_duration_since(answered)
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
