//! Handing descriptors on to another rank of the host, at any time.
//!
//! A rank opens a [`Hatch`] and hands its [chute](Hatch::chute) to the ranks that it trusts, once, as
//! [`pass`](crate::pass) does. Whatever they put into the chute lies in the hatch until the rank
//! looks. It has no name: who was not handed a chute cannot put anything in.
//!
//! How much can lie there is bounded by the kernel. When the rank is gone, so is what lay in its
//! hatch, and a chute to it says so.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Where this rank finds what others hand to it.
#[derive(Debug)]
pub struct Hatch {
    inside: OwnedFd,
    /// Kept, so that the hatch does not seem closed when the others have gone.
    chute: Chute,
}

/// The way into a rank's [`Hatch`].
#[derive(Debug)]
pub struct Chute(OwnedFd);

impl Hatch {
    /// Opens one.
    ///
    /// # Errors
    /// When there are no descriptors left, or no Unix sockets for this process.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Every message is whole, and as many may wait as there is memory for.
        let kind = SocketType::SEQPACKET;
        let (inside, outside) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok(Self { inside, chute: Chute(outside) })
    }

    /// What to hand to the others.
    pub fn chute(&self) -> &Chute {
        &self.chute
    }

    /// Takes what came first, if anything did.
    ///
    /// # Errors
    /// When something came and there is no descriptor left for it: then it is lost.
    pub fn take(&self) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(&self.inside, &mut parts, &mut control, flags) {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let mut descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        descriptors.next().map(Some).ok_or_else(|| Errno::MFILE.into())
    }
}

impl AsFd for Hatch {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inside.as_fd()
    }
}

impl Chute {
    /// Hands a descriptor on. The rank gets one of its own.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) when the rank is gone;
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) when too much lies there already.
    pub fn hand(&self, descriptor: impl AsFd) -> io::Result<()> {
        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = control.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(fits, "there is space for one");
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(&self.0, &[IoSlice::new(&[0])], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::TOOMANYREFS) => return Err(Errno::AGAIN.into()),
                Err(Errno::CONNRESET) => return Err(Errno::PIPE.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl From<OwnedFd> for Chute {
    /// One that another rank has handed over.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for Chute {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_handed_in_is_taken_out_in_order() {
        let hatch = Hatch::open().unwrap();
        assert!(hatch.take().unwrap().is_none());
        for word in [b"1", b"2"] {
            let (mut here, there) = UnixStream::pair().unwrap();
            here.write_all(word).unwrap();
            hatch.chute().hand(&there).unwrap();
        }
        for word in [b"1", b"2"] {
            let mut taken = UnixStream::from(hatch.take().unwrap().unwrap());
            let mut read = [0];
            taken.read_exact(&mut read).unwrap();
            assert_eq!(&read, word);
        }
        assert!(hatch.take().unwrap().is_none());
    }

    #[test]
    fn a_chute_serves_whoever_has_it() {
        let (first, second) = (Hatch::open().unwrap(), Hatch::open().unwrap());
        first.chute().hand(second.chute()).unwrap();
        let chute = Chute::from(first.take().unwrap().unwrap());
        chute.hand(io::stdin()).unwrap();
        assert!(second.take().unwrap().is_some());
    }

    #[test]
    fn who_is_gone_keeps_nothing_and_gets_nothing() {
        let hatch = Hatch::open().unwrap();
        let chute = Chute::from(hatch.chute().as_fd().try_clone_to_owned().unwrap());
        let (mut here, there) = UnixStream::pair().unwrap();
        chute.hand(&there).unwrap();
        drop((hatch, there));
        assert_eq!(here.read(&mut [0]).unwrap(), 0, "what lay in the hatch is closed");
        let error = chute.hand(&here).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
    }

    #[test]
    fn a_hatch_that_nobody_looks_into_is_full_at_some_time() {
        let hatch = Hatch::open().unwrap();
        let (_here, there) = UnixStream::pair().unwrap();
        let full = (0..1_000_000).find_map(|_| hatch.chute().hand(&there).err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "{full}");
        assert!(hatch.take().unwrap().is_some());
    }
}
