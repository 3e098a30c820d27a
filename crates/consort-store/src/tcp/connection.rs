//! One client as the server sees it: handshake first, then calls and answers.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use crate::auth::{GREETING, OPENING, ServerHandshake, Session, refusal};
use crate::error::HandshakeError;
use crate::proto::{Damage, Inbox, Message, Outbox, Word};
use crate::secret::Secret;

/// A connection and how far it has come.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    peer: SocketAddr,
    phase: Phase,
    /// The client's number.
    pub(super) client: u64,
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
    /// The other side closed it: its process has ended, or has no use for it any more.
    Gone,
    /// Nothing came through any more; what has become of the other side is not known.
    Lost,
    /// The client did not pass the handshake.
    Refused(HandshakeError),
    /// What came from the client makes no sense.
    Damaged(Damage),
    /// The client does not read its answers.
    Deaf,
}

impl End {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Lost,
        }
    }
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

impl<S: Read + Write> Connection<S> {
    /// Greets a client that has just connected.
    pub(super) fn greet(
        mut stream: S,
        peer: SocketAddr,
        client: u64,
        secret: &Secret,
    ) -> Result<Self, End> {
        let handshake = ServerHandshake::new(secret).map_err(|_| End::Gone)?;
        match stream.write(handshake.greeting()) {
            Ok(GREETING) => {}
            _ => return Err(End::Gone),
        }
        let phase = Phase::Opening { handshake, opening: [0; OPENING], received: 0 };
        Ok(Self { stream, peer, phase, client, choked: false })
    }

    pub(super) fn stream(&mut self) -> &mut S {
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

    /// Reads what has come and hands each message to `each`, with the outbox for its answer, until
    /// that says that it is enough for now.
    ///
    /// A short read means that everything has been read, which saves asking once more; but not
    /// if the end of the stream may lie behind it (`to_the_end`), of which there is no other news.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        to_the_end: bool,
        mut each: impl FnMut(Message<'_>, &mut Outbox) -> bool,
    ) -> Result<Turn, End> {
        let mut dry = false;
        for _ in 0..READS_PER_TURN {
            if !self.take_messages(&mut each)? {
                return Ok(if self.choked { Turn::Choked } else { Turn::More });
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
                Err(error) => return Err(End::of(&error)),
            }
        }
        Ok(Turn::More)
    }

    /// Adds an answer, to go out with the next [`write`](Self::write).
    pub(super) fn answer(&mut self, answer: &Word) -> Result<(), End> {
        self.tell(answer);
        if self.unwritten() > DEAF { Err(End::Deaf) } else { Ok(()) }
    }

    /// Adds something, however much that makes.
    pub(super) fn tell(&mut self, word: &Word) {
        if let Phase::Open { outbox, .. } = &mut self.phase {
            outbox.push(word);
        }
    }

    /// Bytes that are still to be written.
    pub(super) fn unwritten(&self) -> usize {
        match &self.phase {
            Phase::Open { outbox, .. } => outbox.len(),
            _ => 0,
        }
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
                Err(error) => return Err(End::of(&error)),
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

    /// Whether all messages have been taken.
    fn take_messages(
        &mut self,
        each: &mut impl FnMut(Message<'_>, &mut Outbox) -> bool,
    ) -> Result<bool, End> {
        let Phase::Open { inbox, outbox, .. } = &mut self.phase else { return Ok(true) };
        while outbox.len() < CHOKE {
            let Some(message) = inbox.take().map_err(End::Damaged)? else { return Ok(true) };
            if !each(message, outbox) {
                return Ok(false);
            }
        }
        self.choked = true;
        Ok(false)
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
