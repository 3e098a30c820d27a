//! What the launcher itself has to say.
//!
//! It is written in a thread of its own: whoever should read it can hold that up for ever, and
//! meanwhile there are ranks to look after and signals to hear.

use std::fmt;
use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::event::Inbox;
use super::report::Failure;
use crate::colour;

/// Says something to the user, on standard error, and waits a moment for it to be written. Nobody
/// may be listening, which is no error.
pub(crate) fn notice(text: impl fmt::Display) {
    let _ = say(text).recv_timeout(PATIENCE);
}

/// Says something when nothing else is left to be done. So it waits for a reader that takes its
/// time, a pager perhaps, until a signal asks the launcher to end.
pub(crate) fn last_words(text: impl fmt::Display, inbox: &mut Inbox) {
    let written = say(text);
    let mut until = None;
    loop {
        if inbox.was_asked_to_end() {
            until.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
        let out_of_patience = until.is_some_and(|until| Instant::now() >= until);
        if out_of_patience || written.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Reports a failure, in colour where that shows.
pub(crate) fn report(failure: &Failure, inbox: &mut Inbox) {
    if colour::shows_on(&io::stderr()) {
        last_words(failure.coloured().to_string().trim_end(), inbox);
    } else {
        last_words(failure.to_string().trim_end(), inbox);
    }
}

/// Hands a text to the thread that writes. What it gives is disconnected once that is done.
fn say(text: impl fmt::Display) -> Receiver<()> {
    let (done, written) = mpsc::channel();
    let sent = WRITER.send(Words { text: format!("consort: {text}\n"), _done: done });
    if let Err(SendError(words)) = sent {
        words.write();
    }
    written
}

struct Words {
    text: String,
    _done: Sender<()>,
}

impl Words {
    fn write(self) {
        let _ = io::stderr().write_all(self.text.as_bytes());
    }
}

/// Nobody receives from it if the system has no thread left for us.
static WRITER: LazyLock<Sender<Words>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<Words>();
    let write = move || receiver.into_iter().for_each(Words::write);
    if let Err(error) = thread::Builder::new().name("notices".to_owned()).spawn(write) {
        tracing::debug!(%error, "notices are written by whoever has them");
    }
    sender
});

/// How long a reader may hold us up while there are other things to do.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a signal may have to wait.
const STEP: Duration = Duration::from_millis(50);
