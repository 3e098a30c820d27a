//! The connection of a store that follows to the one that it follows.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::connection::End;
use crate::auth::Session;
use crate::proto::{Inbox, Message, Note, Outbox, Word};

/// Notes come in, and how far they have come goes out.
#[derive(Debug)]
pub(super) struct Feed<S = mio::net::TcpStream> {
    stream: S,
    peer: SocketAddr,
    inbox: Inbox,
    outbox: Outbox,
}

impl Feed {
    /// Asks the store at the other end to be followed by one that clients reach at `address`.
    pub(super) fn new(
        stream: TcpStream,
        session: Session,
        address: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let peer = stream.peer_addr()?;
        let (inbox, outbox) = (Inbox::new(session.opener), Outbox::new(session.sealer));
        let mut feed = Self { stream: mio::net::TcpStream::from_std(stream), peer, inbox, outbox };
        feed.outbox.push(&Message::Attach { address });
        Ok(feed)
    }
}

impl<S: Read + Write> Feed<S> {
    pub(super) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The store that is followed.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads all that has come and hands on the notes, then says how the connection ended if it
    /// has.
    pub(super) fn read(
        &mut self,
        scratch: &mut [u8],
        mut each: impl FnMut(Note, &mut Outbox),
    ) -> Result<(), End> {
        loop {
            while let Some(word) = self.inbox.take().map_err(End::Damaged)? {
                match word {
                    Word::Note(note) => each(note, &mut self.outbox),
                    Word::House(_) | Word::Answer(_) => {}
                }
            }
            match self.stream.read(scratch) {
                Ok(0) => return Err(End::Gone),
                Ok(count) => self.inbox.feed(&scratch[..count]).map_err(End::Damaged)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(End::of(&error)),
            }
        }
    }

    /// Says something to the store that is followed.
    pub(super) fn tell(&mut self, message: &Message<'_>) {
        self.outbox.push(message);
    }

    /// Writes what can be written.
    pub(super) fn write(&mut self) -> Result<(), End> {
        while !self.outbox.is_empty() {
            match self.stream.write(self.outbox.unsent()) {
                Ok(count) => self.outbox.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(End::of(&error)),
            }
        }
        Ok(())
    }
}
