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

    /// Whether something was read that was not asked for yet.
    pub(super) fn has_read_ahead(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.has_read_ahead())
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
    plain: Box<[u8]>,
    /// Sealed, of which `sent` bytes are out. Empty once all are.
    outgoing: Vec<u8>,
    sent: usize,
    /// Records that have come, from `start` to `end`, the last perhaps in part.
    incoming: Box<[u8]>,
    start: usize,
    end: usize,
    /// Opened, of which `used` bytes were asked for.
    opened: Vec<u8>,
    used: usize,
}

impl Seal {
    fn new(session: Session) -> Self {
        let (plain, incoming) = (vec![0; RECORD_PLAIN].into(), vec![0; INCOMING].into());
        let (outgoing, opened) = Default::default();
        Self { session, plain, outgoing, sent: 0, incoming, start: 0, end: 0, opened, used: 0 }
    }

    fn write(&mut self, socket: &TcpStream, parts: &[Source<'_>]) -> io::Result<Option<usize>> {
        if !self.flush(socket)? {
            return Ok(None);
        }
        let mut filled = 0;
        for part in parts {
            let len = part.len().min(RECORD_PLAIN - filled);
            let room = Target::from(&mut self.plain[filled..filled + len]);
            room.copy_from(part.slice(0..len));
            filled += len;
        }
        self.session.sealer.seal(&self.plain[..filled], &mut self.outgoing);
        self.flush(socket)?;
        Ok(Some(filled))
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

    /// Whether there is something to read without the socket.
    fn has_read_ahead(&self) -> bool {
        let come = &self.incoming[self.start..self.end];
        self.used < self.opened.len() || Opener::whole(come).is_some()
    }

    /// Opens the next record, if it is all there.
    fn open_more(&mut self, socket: &TcpStream) -> io::Result<bool> {
        self.opened.clear();
        self.used = 0;
        loop {
            let come = &self.incoming[self.start..self.end];
            if let Some(length) = Opener::whole(come) {
                let opened = self.session.opener.open(&come[..length], &mut self.opened);
                opened.map_err(|forged| io::Error::new(io::ErrorKind::InvalidData, forged))?;
                self.start += length;
                if !self.opened.is_empty() {
                    return Ok(true);
                }
            } else if !self.fetch(socket)? {
                return Ok(false);
            }
        }
    }

    /// Reads what has come behind a record that is not all there. Whether there was something.
    fn fetch(&mut self, socket: &TcpStream) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + RECORD_PLAIN + RECORD_OVERHEAD > self.incoming.len() {
            // A whole record has room from the beginning on.
            self.incoming.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = Target::from(&mut self.incoming[self.end..]);
        match not_now(socket::receive(socket, &[room]))? {
            None => Ok(false),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(read) => {
                self.end += read;
                Ok(true)
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

/// Room for what comes: a few records.
const INCOMING: usize = 4 * (RECORD_PLAIN + RECORD_OVERHEAD);
