//! Streams to another process, kept full both ways by one thread that never sleeps.

use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;

/// One end of some streams.
#[derive(Debug)]
pub(crate) struct Streams(Vec<TcpStream>);

impl Streams {
    /// Of connected sockets.
    pub(crate) fn new(streams: Vec<TcpStream>) -> io::Result<Self> {
        for stream in &streams {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
        }
        Ok(Self(streams))
    }

    /// Sends and receives at once, by parts over the first `count` streams. The other end does the
    /// same with as many bytes.
    ///
    /// # Errors
    /// When the other end is gone.
    pub(crate) fn exchange(&self, count: usize, from: &[u8], into: &mut [u8]) -> io::Result<()> {
        let mut parts = self.part(count, from, into);
        let mut idle = 0;
        while parts.iter().any(Part::is_unfinished) {
            let mut moved = false;
            for part in &mut parts {
                moved |= part.push()?;
                moved |= part.pull()?;
            }
            match moved {
                true => idle = 0,
                false => idle = rest(idle),
            }
        }
        Ok(())
    }

    /// One part for each stream, as equal as they can be.
    fn part<'a>(
        &'a self,
        count: usize,
        mut from: &'a [u8],
        mut into: &'a mut [u8],
    ) -> Vec<Part<'a>> {
        let streams = &self.0[..count.clamp(1, self.0.len())];
        let mut parts = Vec::with_capacity(streams.len());
        for (at, stream) in streams.iter().enumerate() {
            let left = streams.len() - at;
            let (mine, others) = from.split_at(from.len().div_ceil(left));
            let (my_room, their_room) = into.split_at_mut(into.len().div_ceil(left));
            parts.push(Part { stream, from: mine, into: my_room });
            (from, into) = (others, their_room);
        }
        parts
    }
}

/// What is left to do on one stream.
struct Part<'a> {
    stream: &'a TcpStream,
    from: &'a [u8],
    into: &'a mut [u8],
}

impl Part<'_> {
    fn is_unfinished(&self) -> bool {
        !self.from.is_empty() || !self.into.is_empty()
    }

    /// Whether anything could be sent.
    fn push(&mut self) -> io::Result<bool> {
        if self.from.is_empty() {
            return Ok(false);
        }
        let sent = moved(self.stream.write(&self.from[..self.from.len().min(AT_ONCE)]))?;
        self.from = &self.from[sent..];
        Ok(sent > 0)
    }

    /// Whether anything had come.
    fn pull(&mut self) -> io::Result<bool> {
        if self.into.is_empty() {
            return Ok(false);
        }
        let room = self.into.len().min(AT_ONCE);
        let received = moved(self.stream.read(&mut self.into[..room]))?;
        self.into = &mut std::mem::take(&mut self.into)[received..];
        Ok(received > 0)
    }
}

fn moved(outcome: io::Result<usize>) -> io::Result<usize> {
    match outcome {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        outcome => outcome,
    }
}

/// Waits a moment, the `idle`th in a row: with a core to spare by spinning, else it may be the other
/// end that needs this one.
fn rest(idle: u32) -> u32 {
    if idle < SPINS {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
    idle.saturating_add(1)
}

/// How many bytes go to the kernel in one call: few enough to come out of the caches again on the
/// other side.
const AT_ONCE: usize = 256 << 10;

/// Fruitless looks at all streams, of about a microsecond each, before the core is given away.
const SPINS: u32 = 100;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(count: usize) -> [Streams; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        let (ours, theirs) = (0..count).map(connect).unzip();
        [ours, theirs].map(|streams| Streams::new(streams).unwrap())
    }

    fn bytes(count: usize, first: u8) -> Vec<u8> {
        (0..count).map(|at| (at % 251) as u8 ^ first).collect()
    }

    #[test]
    fn every_byte_comes_to_its_place_over_any_number_of_streams() {
        let [ours, theirs] = pair(4);
        for length in [1, 3, 8, 1_000_003, 8 << 20] {
            for count in 1..=4 {
                let exchange = |end: &Streams, first| {
                    let mut into = vec![0; length];
                    end.exchange(count, &bytes(length, first), &mut into).unwrap();
                    into
                };
                let (here, there) = thread::scope(|scope| {
                    let there = scope.spawn(|| exchange(&theirs, 1));
                    (exchange(&ours, 2), there.join().unwrap())
                });
                assert!(here == bytes(length, 1) && there == bytes(length, 2), "{length} {count}");
            }
        }
    }

    #[test]
    fn another_end_that_is_gone_is_an_error() {
        let [ours, theirs] = pair(1);
        drop(theirs);
        assert!(ours.exchange(1, &[1; 64], &mut [0; 64]).is_err());
    }
}
