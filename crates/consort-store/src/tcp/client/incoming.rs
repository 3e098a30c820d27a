//! From received bytes to answers.

use std::io::{self, Read};
use std::net::TcpStream;

use super::desk::Broken;
use super::spin::Spins;
use crate::auth::Opener;
use crate::proto::{Inbox, Word};

/// What the reader works with.
#[derive(Debug)]
pub(super) struct Incoming {
    inbox: Inbox,
    scratch: Box<[u8]>,
    /// Whether looking again and again for a moment has paid off lately.
    pub(super) spins: Spins,
}

impl Incoming {
    pub(super) fn new(opener: Opener) -> Self {
        Self {
            inbox: Inbox::new(opener),
            scratch: vec![0; SCRATCH].into(),
            spins: Spins::default(),
        }
    }

    /// Reads what is there; nothing is `None`.
    pub(super) fn look(&mut self, mut stream: &TcpStream) -> Option<io::Result<usize>> {
        match stream.read(&mut self.scratch) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                None
            }
            received => Some(received),
        }
    }

    /// The words that what was received completes.
    pub(super) fn open(
        &mut self,
        received: Option<io::Result<usize>>,
    ) -> Result<Vec<Word>, Broken> {
        let Self { inbox, scratch, .. } = self;
        let count = match received {
            None => return Ok(Vec::new()),
            Some(Ok(0)) => return Err(Broken("it closed the connection".to_owned())),
            Some(Ok(count)) => count,
            Some(Err(error)) => return Err(Broken(error.to_string())),
        };
        inbox.feed(&scratch[..count]).map_err(|damage| Broken(damage.to_string()))?;
        let mut words = Vec::new();
        while let Some(word) = inbox.take().map_err(|damage| Broken(damage.to_string()))? {
            words.push(word);
        }
        Ok(words)
    }
}

const SCRATCH: usize = 64 << 10;
