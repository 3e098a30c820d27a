//! Our own standard output and standard error, written in whole lines.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Collects lines and writes them. A stream that nobody reads swallows what comes later.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    waiting: [Vec<u8>; 2],
    closed: [bool; 2],
}

impl Screen {
    /// Adds a line behind its prefix.
    pub(crate) fn line(&mut self, side: Side, prefix: &[u8], line: &[u8]) {
        if !self.closed[side as usize] {
            let waiting = &mut self.waiting[side as usize];
            waiting.extend_from_slice(prefix);
            waiting.extend_from_slice(line);
            waiting.push(b'\n');
        }
    }

    /// Writes what was added. Fails once for a stream that cannot be written any more.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for side in [Side::Out, Side::Err] {
            let waiting = &mut self.waiting[side as usize];
            let written = match side {
                Side::Out => write_all(io::stdout().as_fd(), waiting),
                Side::Err => write_all(io::stderr().as_fd(), waiting),
            };
            waiting.clear();
            if let Err(error) = written {
                self.closed[side as usize] = true;
                result = Err(error);
            }
        }
        result
    }
}

/// Writes everything, also to a stream that somebody else has made non-blocking.
fn write_all(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stream, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Whatever this says, the next write will tell.
                let _ = poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;

    #[test]
    fn a_full_pipe_that_does_not_block_gets_everything_all_the_same() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let sent: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        let expected = sent.clone();
        let sender = thread::spawn(move || write_all(writer.as_fd(), &sent));
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        sender.join().unwrap().unwrap();
        assert!(received == expected);
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error_and_no_signal() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let error = write_all(writer.as_fd(), b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
