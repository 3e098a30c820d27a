//! One client as the server sees it: handshake first, then calls and answers.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::auth::{GREETING, OPENING, ServerHandshake, Session, refusal};
use crate::error::HandshakeError;
use crate::proto::{Answer, Damage, Inbox, Message, Outbox};
use crate::secret::Secret;

/// A connection and how far it has come.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    phase: Phase,
    /// It has too many answers to read, and messages of its own that wait for that.
    choked: bool,
}

#[derive(Debug)]
enum Phase {
    /// The greeting is out, the opening is awaited: `received` of it has come.
    Opening { handshake: ServerHandshake, opening: [u8; OPENING], received: usize },
    /// The client has proved that it knows the secret.
    Open { name: String, inbox: Inbox, outbox: Outbox },
    /// Refused or gone; only dropping is left.
    Over,
}

/// Why a connection ends. Only [`Refused`](End::Refused) and [`Damaged`](End::Damaged) are news.
#[derive(Debug)]
pub(super) enum End {
    /// The client closed it, or the network did.
    Gone,
    /// The client did not pass the handshake.
    Refused(HandshakeError),
    /// What came from the client makes no sense.
    Damaged(Damage),
    /// The client does not read its answers.
    Deaf,
}

/// What is left to do after a turn of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Everything that had come has been read.
    Dry,
    /// There may be more: give the others a turn, then come back.
    More,
    /// The client must read answers before it is read again.
    Choked,
}

impl Connection {
    /// Greets a client that has just connected.
    pub(super) fn greet(
        mut stream: TcpStream,
        peer: SocketAddr,
        secret: &Secret,
    ) -> Result<Self, End> {
        let handshake = ServerHandshake::new(secret).map_err(|_| End::Gone)?;
        match stream.write(handshake.greeting()) {
            Ok(GREETING) => {}
            _ => return Err(End::Gone),
        }
        let phase = Phase::Opening { handshake, opening: [0; OPENING], received: 0 };
        Ok(Self { stream, peer, phase, choked: false })
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// How the log names this client.
    pub(super) fn describe(&self) -> String {
        match &self.phase {
            Phase::Open { name, .. } if !name.is_empty() => format!("{} ({name})", self.peer),
            _ => self.peer.to_string(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Reads what has come and hands each message to `each`, with the outbox for its answer.
    ///
    /// A short read means that everything has been read, which saves asking once more; but not
    /// if the end of the stream may lie behind it (`to_the_end`), of which there is no other news.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        to_the_end: bool,
        mut each: impl FnMut(Message<'_>, &mut Outbox),
    ) -> Result<Turn, End> {
        let mut dry = false;
        for _ in 0..READS_PER_TURN {
            self.take_messages(&mut each)?;
            if self.choked {
                return Ok(Turn::Choked);
            }
            if dry {
                return Ok(Turn::Dry);
            }
            match self.stream.read(scratch) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => {
                    self.feed(&scratch[..count])?;
                    dry = count < scratch.len() && !to_the_end;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Turn::Dry),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
        }
        Ok(Turn::More)
    }

    /// Adds an answer, to go out with the next [`write`](Self::write).
    pub(super) fn answer(&mut self, answer: &Answer) -> Result<(), End> {
        let Phase::Open { outbox, .. } = &mut self.phase else { return Ok(()) };
        outbox.push(answer);
        if outbox.len() > DEAF { Err(End::Deaf) } else { Ok(()) }
    }

    /// Writes what can be written. True if the client was choked and may be read again.
    pub(super) fn write(&mut self) -> Result<bool, End> {
        let Phase::Open { outbox, .. } = &mut self.phase else { return Ok(false) };
        loop {
            let unsent = outbox.unsent();
            if unsent.is_empty() {
                break;
            }
            match self.stream.write(unsent) {
                Ok(count) => outbox.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
        }
        let freed = self.choked && outbox.len() < CHOKE;
        self.choked &= !freed;
        Ok(freed)
    }

    /// Tells a client that did not pass why, as far as one byte can.
    pub(super) fn refuse(&mut self, why: &HandshakeError) {
        // It is going away; whether it hears the reason is its own affair.
        let _ = self.stream.write(&[refusal(why)]);
        self.phase = Phase::Over;
    }

    fn take_messages(
        &mut self,
        each: &mut impl FnMut(Message<'_>, &mut Outbox),
    ) -> Result<(), End> {
        let Phase::Open { inbox, outbox, .. } = &mut self.phase else { return Ok(()) };
        while outbox.len() < CHOKE {
            match inbox.take().map_err(End::Damaged)? {
                Some(message) => each(message, outbox),
                None => return Ok(()),
            }
        }
        self.choked = true;
        Ok(())
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        if let Phase::Opening { opening, received, .. } = &mut self.phase {
            let count = bytes.len().min(OPENING - *received);
            opening[*received..*received + count].copy_from_slice(&bytes[..count]);
            *received += count;
            bytes = &bytes[count..];
            ServerHandshake::look(&opening[..*received]).map_err(End::Refused)?;
            if *received < OPENING {
                return Ok(());
            }
            self.accept()?;
        }
        match &mut self.phase {
            Phase::Open { inbox, .. } => inbox.feed(bytes).map_err(End::Damaged),
            _ => Ok(()),
        }
    }

    /// The opening is complete: judge it.
    fn accept(&mut self) -> Result<(), End> {
        let Phase::Opening { handshake, opening, .. } =
            std::mem::replace(&mut self.phase, Phase::Over)
        else {
            return Ok(());
        };
        let (answer, Session { sealer, opener }, name) =
            handshake.answer(&opening).map_err(End::Refused)?;
        if self.stream.write(&answer).ok() != Some(answer.len()) {
            return Err(End::Gone);
        }
        self.phase = Phase::Open { name, inbox: Inbox::new(opener), outbox: Outbox::new(sealer) };
        Ok(())
    }
}

/// Reads of one client before the others get a turn.
const READS_PER_TURN: usize = 16;
/// A client with so many bytes of answers to read is not read itself.
const CHOKE: usize = 1 << 20;
/// A client with so many is closed. One answer can have as much as a message's limit.
const DEAF: usize = 256 << 20;
