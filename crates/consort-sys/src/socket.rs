//! Bytes on their way between views and sockets.
//!
//! A call's memory is sent from where it is and received where it belongs, without a copy in
//! between. Nothing here waits: a socket that has no room, or nothing to read, says so.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::view::{Source, Target};

/// Sends as much of these parts, one behind the other, as the socket takes. Says how many bytes.
///
/// Of many parts only the first [`MOST`] are looked at.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) when it takes nothing now; otherwise why it takes
/// nothing any more.
pub fn send(socket: impl AsFd, parts: &[Source<'_>]) -> io::Result<usize> {
    let part = |part: &Source<'_>| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    };
    let mut list = List::new(parts.iter().map(part));
    let message = list.message();
    // SAFETY: the message is of parts that are readable while their views live, and the kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, SEND) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives as much as there is, and fits into these parts, one behind the other. Says how many
/// bytes; none is the end of what the other side sends.
///
/// Of many parts only the first [`MOST`] are looked at.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) when there is nothing yet; otherwise why nothing comes
/// any more.
///
/// # Panics
/// When the parts have no room at all: what is received then says nothing.
pub fn receive(socket: impl AsFd, parts: &[Target<'_>]) -> io::Result<usize> {
    let part =
        |part: &Target<'_>| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
    let mut list = List::new(parts.iter().map(part));
    assert!(list.room() > 0, "there is room for what is received");
    let mut message = list.message();
    // SAFETY: the message is of parts that are writable while their views live, and to which no
    // reference exists.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, RECEIVE) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let mut left = received;
    for part in parts.iter().take(MOST) {
        let filled = left.min(part.len());
        part.slice(0..filled).make_truths();
        left -= filled;
    }
    Ok(received)
}

/// How many bytes were sent that the other side's system has not acknowledged.
///
/// # Errors
/// When it is no socket that could tell.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    let out: *mut libc::c_int = &mut bytes;
    // SAFETY: the request writes one number to where it is told, which lives.
    let told = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, out) };
    match told {
        0 => Ok(usize::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has a listening socket keep those who connect until they have said something, or for about so many
/// seconds: whoever accepts them then can read it at once.
///
/// # Errors
/// When it is no socket of that kind.
pub fn accept_who_speaks(listener: impl AsFd, seconds: u16) -> io::Result<()> {
    let seconds = libc::c_int::from(seconds);
    // SAFETY: the kernel reads one number from where it is told, which lives.
    let set = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How long the other side's system has been silent.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// Since it has acknowledged something last.
    pub since: Duration,
    /// Whether there is something that it should acknowledge.
    pub is_owed: bool,
}

/// How long the other side's system has been silent. It speaks for its processes, even if they are
/// stopped.
///
/// # Errors
/// When it is no TCP socket.
pub fn silence(socket: impl AsFd) -> io::Result<Silence> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (fd, out) = (socket.as_fd().as_raw_fd(), info.as_mut_ptr().cast());
    // SAFETY: the call writes at most `len` bytes to where it is told, which lives and has as many.
    let told =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, out, &raw mut len) };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is made of numbers, for all of which zeroes are good.
    let info = unsafe { info.assume_init() };
    let since = Duration::from_millis(info.tcpi_last_ack_recv.into());
    // With the interface down nothing leaves at all; but then the system probes, again and again. One
    // probe may be on its way to a process that reads nothing.
    let is_owed = info.tcpi_unacked > 0 || info.tcpi_probes > 1;
    Ok(Silence { since, is_owed })
}

/// Parts as the system wants them.
struct List {
    parts: [libc::iovec; MOST],
    len: usize,
}

impl List {
    fn new(parts: impl Iterator<Item = libc::iovec>) -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut list = Self { parts: [none; MOST], len: 0 };
        for (place, part) in list.parts.iter_mut().zip(parts) {
            *place = part;
            list.len += 1;
        }
        list
    }

    fn room(&self) -> usize {
        self.parts[..self.len].iter().map(|part| part.iov_len).sum()
    }

    /// A message of these parts, which must not move while it is used.
    fn message(&mut self) -> libc::msghdr {
        // SAFETY: a message of zeroes is one without address, parts and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.parts.as_mut_ptr();
        message.msg_iovlen = self.len as _;
        message
    }
}

/// How many parts are moved at once.
pub const MOST: usize = 16;
/// A peer that is gone is an error, not a signal.
const SEND: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const RECEIVE: libc::c_int = libc::MSG_DONTWAIT;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::dtype::Element;

    #[test]
    fn parts_arrive_one_behind_the_other() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let parts = [&b"one, "[..], b"", b"two"].map(Source::from);
        assert_eq!(send(&here, &parts).unwrap(), 8);
        let mut all = [0; 8];
        there.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"one, two");
    }

    #[test]
    fn what_is_there_fills_part_after_part() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"abcdef").unwrap();
        let (mut first, mut second) = ([0; 4], [b'-'; 4]);
        let parts = [Target::from(&mut first[..]), Target::from(&mut second[..])];
        assert_eq!(receive(&here, &parts).unwrap(), 6);
        assert_eq!((&first, &second), (b"abcd", b"ef--"));
    }

    #[test]
    fn nothing_waits() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut bytes = vec![7; 1 << 20];
        let nothing = receive(&here, &[Target::from(&mut bytes[..])]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let full = loop {
            if let Err(error) = send(&here, &[Source::from(&bytes[..])]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(there);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_end_and_an_error() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        let mut bytes = [0; 4];
        assert_eq!(receive(&here, &[Target::from(&mut bytes[..])]).unwrap(), 0);
        let error = send(&here, &[Source::from(&bytes[..])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn only_who_speaks_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        accept_who_speaks(&listener, 30).unwrap();
        let address = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(address).unwrap();
        let mut speaks = TcpStream::connect(address).unwrap();
        speaks.write_all(b"x").unwrap();
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer, speaks.local_addr().unwrap());
        accepted.set_nonblocking(true).unwrap();
        assert_eq!(accepted.read(&mut [0; 2]).unwrap(), 1);
        assert!(accept_who_speaks(UnixStream::pair().unwrap().0, 30).is_err());
    }

    #[test]
    fn truths_that_are_received_are_truths() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&[0, 1, 2, 255]).unwrap();
        let mut truths = [false; 5];
        assert_eq!(receive(&here, &[bool::target(&mut truths)]).unwrap(), 4);
        assert_eq!(truths, [false, true, true, true, false]);
    }

    #[test]
    fn of_many_parts_only_so_many_are_moved_at_once() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let parts = [Source::from(&b"x"[..]); MOST + 3];
        assert_eq!(send(&here, &parts).unwrap(), MOST);
        let mut all = [0; MOST];
        there.read_exact(&mut all).unwrap();
        assert_eq!(all, [b'x'; MOST]);
    }
}
