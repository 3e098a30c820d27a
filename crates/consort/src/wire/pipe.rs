//! The bytes of a connection, plain or sealed. Nothing waits.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use consort_store::auth::{Opener, RECORD_OVERHEAD, RECORD_PLAIN, Session};
use consort_sys::socket;
use consort_sys::view::{Source, Target};

/// One connection.
#[derive(Debug)]
pub(super) struct Pipe {
    socket: Arc<TcpStream>,
    /// If what goes over it is sealed.
    seal: Option<Box<Seal>>,
}

impl Pipe {
    /// Over a socket that does not block.
    pub(super) fn new(socket: Arc<TcpStream>, session: Option<Session>) -> Self {
        Self { socket, seal: session.map(|session| Box::new(Seal::new(session))) }
    }

    /// What to wait on.
    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Sends what was taken and sealed. Whether all of it is out.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.seal {
            None => Ok(true),
            Some(seal) => seal.flush(&self.socket),
        }
    }

    /// Whether something that was taken is not out.
    pub(super) fn has_backlog(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| !seal.outgoing.is_empty())
    }

    /// Takes as much of these parts as there is room for. `None` if there is none.
    pub(super) fn write(&mut self, parts: &[Source<'_>]) -> io::Result<Option<usize>> {
        match &mut self.seal {
            None => not_now(socket::send(&self.socket, parts)),
            Some(seal) => seal.write(&self.socket, parts),
        }
    }

    /// Fills as much of these parts as has come. `None` if nothing has.
    ///
    /// # Errors
    /// When the connection is broken; [`io::ErrorKind::UnexpectedEof`] at its end.
    pub(super) fn read(&mut self, parts: &[Target<'_>]) -> io::Result<Option<usize>> {
        let read = match &mut self.seal {
            None => not_now(socket::receive(&self.socket, parts)),
            Some(seal) => seal.read(&self.socket, parts),
        };
        match read {
            Ok(Some(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        }
    }

    /// Says that nothing more is written. Says how many bytes are still on their way.
    pub(super) fn close(&self) -> usize {
        // One that is closed already has nothing to say.
        let _ = self.socket.shutdown(Shutdown::Write);
        socket::unacknowledged(&self.socket).unwrap_or(0)
    }
}

/// Records of a sealed connection on their way.
#[derive(Debug)]
struct Seal {
    session: Session,
    plain: Vec<u8>,
    /// Sealed, of which `sent` bytes are out. Empty once all are.
    outgoing: Vec<u8>,
    sent: usize,
    /// Records that have come, the last perhaps in part.
    incoming: Vec<u8>,
    /// Opened, of which `used` bytes were asked for.
    opened: Vec<u8>,
    used: usize,
}

impl Seal {
    fn new(session: Session) -> Self {
        let (plain, outgoing, incoming, opened) = Default::default();
        Self { session, plain, outgoing, sent: 0, incoming, opened, used: 0 }
    }

    fn write(&mut self, socket: &TcpStream, parts: &[Source<'_>]) -> io::Result<Option<usize>> {
        if !self.flush(socket)? {
            return Ok(None);
        }
        self.plain.clear();
        for part in parts {
            let len = part.len().min(RECORD_PLAIN - self.plain.len());
            let at = self.plain.len();
            self.plain.resize(at + len, 0);
            Target::from(&mut self.plain[at..]).copy_from(part.slice(0..len));
        }
        self.session.sealer.seal(&self.plain, &mut self.outgoing);
        self.flush(socket)?;
        Ok(Some(self.plain.len()))
    }

    /// Whether all that was sealed is out.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<bool> {
        while self.sent < self.outgoing.len() {
            let rest = Source::from(&self.outgoing[self.sent..]);
            match not_now(socket::send(socket, &[rest]))? {
                None => return Ok(false),
                Some(sent) => self.sent += sent,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(true)
    }

    fn read(&mut self, socket: &TcpStream, parts: &[Target<'_>]) -> io::Result<Option<usize>> {
        if self.used == self.opened.len() && !self.open_more(socket)? {
            return Ok(None);
        }
        let mut filled = 0;
        for part in parts {
            let len = part.len().min(self.opened.len() - self.used);
            let from = Source::from(&self.opened[self.used..self.used + len]);
            part.slice(0..len).copy_from(from);
            self.used += len;
            filled += len;
        }
        Ok(Some(filled))
    }

    /// Opens the next record, if it is all there.
    fn open_more(&mut self, socket: &TcpStream) -> io::Result<bool> {
        self.opened.clear();
        self.used = 0;
        loop {
            if let Some(length) = Opener::whole(&self.incoming) {
                let record = &self.incoming[..length];
                let opened = self.session.opener.open(record, &mut self.opened);
                opened.map_err(|forged| io::Error::new(io::ErrorKind::InvalidData, forged))?;
                self.incoming.drain(..length);
                if !self.opened.is_empty() {
                    return Ok(true);
                }
                continue;
            }
            let at = self.incoming.len();
            self.incoming.resize(RECORD_PLAIN + RECORD_OVERHEAD, 0);
            let read = not_now(socket::receive(socket, &[Target::from(&mut self.incoming[at..])]));
            self.incoming.truncate(at + read.as_ref().map_or(0, |read| read.unwrap_or(0)));
            match read? {
                None => return Ok(false),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
            }
        }
    }
}

fn not_now(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(moved) => Ok(Some(moved)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
