//! Who the kernel says is at the other end of a socket.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem};

/// A process and its user, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    /// Zero if it cannot be seen from here, being in another process namespace.
    pub(super) process: u32,
    pub(super) user: u32,
}

impl Credentials {
    /// Who connected the socket, or who listened where it is connected to.
    ///
    /// Asked of the kernel directly: rustix has a type for it that cannot hold the process number
    /// zero, which is what a process of another namespace has.
    pub(super) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = mem::size_of_val(&found) as libc::socklen_t;
        // SAFETY: the socket is open, and the kernel writes at most `len` bytes to `found`, of
        // which any make a valid value.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut len,
            )
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        let process = u32::try_from(found.pid).unwrap_or_default();
        Ok(Self { process, user: found.uid })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let found = Credentials::of_peer(socket.as_fd()).unwrap();
        assert_eq!(found, Credentials { process: std::process::id(), user });
    }

    #[test]
    fn what_is_no_socket_has_no_other_end() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Credentials::of_peer(file.as_fd()).is_err());
    }
}
