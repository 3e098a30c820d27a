//! Those who are not to be let in, and one who pretends to be the store.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use consort_testkit::net::{End, Event, Net, Socket};

use super::secret;
use crate::auth::{ANSWER, ClientHandshake, GREETING, OPENING, ServerHandshake};

/// What a stranger sends to a store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trick {
    /// An opening made with another secret.
    WrongSecret,
    /// An opening of another version.
    OldVersion,
    /// An opening that a member has sent on another connection.
    Recorded([u8; OPENING]),
    /// A member's opening with a bit changed.
    Changed([u8; OPENING]),
    Garbage,
    Nothing,
}

/// A stranger at the store's door.
pub(super) struct Stranger {
    socket: Socket,
    trick: Trick,
    heard: Vec<u8>,
}

impl Stranger {
    pub(super) fn new(net: &Net, from: usize, to: usize, trick: Trick) -> Self {
        Self { socket: net.connect(from, to), trick, heard: Vec::new() }
    }

    pub(super) fn end(&self) -> End {
        self.socket.end()
    }

    /// Something has come. Whether the store has sent it away.
    pub(super) fn hear(&mut self, net: &Net) -> bool {
        let mut scratch = [0; 256];
        let had = self.heard.len();
        let over = match self.socket.read(&mut scratch) {
            Ok(0) => true,
            Ok(count) => {
                self.heard.extend_from_slice(&scratch[..count]);
                false
            }
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        let said = self.heard.get(GREETING..).unwrap_or_default();
        assert!(said.len() <= 1 && said != [0], "{:?} was let in: {said:?}", self.trick);
        if had < GREETING && self.heard.len() >= GREETING {
            let opening = self.opening(net);
            // If it has been sent away by now, so be it.
            let _ = self.socket.write(&opening);
        }
        over
    }

    fn opening(&self, net: &Net) -> Vec<u8> {
        let greeting = self.heard.first_chunk().unwrap();
        let (_, mut opening) = ClientHandshake::open(&secret(2), greeting, "stranger").unwrap();
        match self.trick {
            Trick::WrongSecret => {}
            Trick::OldVersion => opening[8] ^= 1,
            Trick::Recorded(other) => opening = other,
            Trick::Changed(other) => {
                opening = other;
                let at = net.pick(OPENING);
                opening[at] ^= 1 << net.roll(8);
            }
            Trick::Garbage => {
                let length = 1 + net.pick(2 * OPENING);
                return (0..length).map(|_| net.roll(256) as u8).collect();
            }
            Trick::Nothing => return Vec::new(),
        }
        // What a member would send next.
        [&opening[..], &[40, 0], &[7; 40]].concat()
    }
}

/// One who does not know the secret and says that whoever comes is welcome.
#[derive(Default)]
pub(super) struct Impostor {
    sockets: BTreeMap<End, Socket>,
}

impl Impostor {
    pub(super) fn hear(&mut self, event: Event, net: &Net) {
        match event {
            Event::Opened(mut socket) => {
                let greeting = *ServerHandshake::new(&secret(2)).unwrap().greeting();
                let _ = socket.write(&greeting);
                self.sockets.insert(socket.end(), socket);
            }
            Event::Readable(end) => {
                let Some(socket) = self.sockets.get_mut(&end) else { return };
                let mut scratch = [0; 256];
                if !matches!(socket.read(&mut scratch), Ok(1..)) {
                    self.sockets.remove(&end);
                    return;
                }
                let mut answer: Vec<u8> = (0..ANSWER + 60).map(|_| net.roll(256) as u8).collect();
                answer[0] = 0;
                let _ = socket.write(&answer);
            }
            Event::Writable(_) | Event::Alarm(_) => {}
        }
    }
}
