//! What reads bytes from a connection, as functions from bytes that must not panic, hang or take more
//! memory than the bytes deserve. Property tests below and the targets in `fuzz/` call the same ones.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use consort_sys::view::Target;

use super::frame::{HEADER, Header, Kind};
use super::pipe::Pipe;
use super::stream::Stream;
use crate::exec::Moved;

/// What comes instead of a header.
pub fn header(bytes: &[u8]) {
    let mut head = [0; HEADER];
    let len = bytes.len().min(HEADER);
    head[..len].copy_from_slice(&bytes[..len]);
    let Ok(header) = Header::decode(&head) else { return };
    assert!(header.bytes as usize <= header.kind.most(), "too much is announced");
    let again = Header::decode(&header.encode());
    assert_eq!(again.as_ref(), Ok(&header), "what was understood can be said");
}

/// What comes instead of frames, in pieces. Parts of calls are taken, all else is kept.
pub fn frames(bytes: &[u8], piece: usize, integrity: bool) {
    let (near, mut far) = UnixStream::pair().expect("two connected sockets can be had");
    near.set_nonblocking(true).expect("a socket need not block");
    let socket = Arc::new(TcpStream::from(OwnedFd::from(near)));
    let mut stream = Stream::new(Pipe::new(socket, None), integrity);
    let mut read = 0;
    for piece in bytes.chunks(piece.clamp(1, ROOM)) {
        far.write_all(piece).expect("there is room for a piece");
        loop {
            match next(&mut stream) {
                None => return,
                Some(0) => break,
                Some(len) => read += len,
            }
        }
    }
    assert!(read <= bytes.len(), "{read} bytes of {}", bytes.len());
}

/// How long the next frame is that has come; `None` if there cannot be one.
fn next(stream: &mut Stream) -> Option<usize> {
    let Some(header) = stream.look().ok()? else { return Some(0) };
    let bytes = header.bytes as usize;
    if header.kind == Kind::Part && !stream.keeps() && header.number % 2 == 1 {
        let mut data = vec![0; bytes];
        let taken = stream.take(&[Target::from(&mut data[..])], &mut 0).ok()?;
        return Some(if taken == Moved::Whole { HEADER + bytes } else { 0 });
    }
    let Some(kept) = stream.keep().ok()? else { return Some(0) };
    assert_eq!(kept.taken + kept.rest.len(), bytes, "a frame is as long as it says");
    Some(HEADER + bytes)
}

/// What a socket takes without anybody reading.
const ROOM: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::peer::word;
    use super::*;

    /// Frames that mean something, with damage.
    fn damaged() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop::sample::select(vec![
            Kind::Part,
            Kind::Letter,
            Kind::Halt,
            Kind::Credit,
            Kind::Leave,
            Kind::Bye,
            Kind::Mourn,
            Kind::Await,
        ]);
        let frame = (kind, 0_u64..4, 0_usize..300).prop_map(|(kind, number, bytes)| {
            let bytes = bytes.min(kind.most());
            let header = Header { bytes: bytes as u32, ..word(kind, 7, 0, number) };
            [&header.encode()[..], &vec![number as u8; bytes]].concat()
        });
        let damage = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
        (prop::collection::vec(frame, 1..8), damage).prop_map(|(frames, damage)| {
            let mut bytes = frames.concat();
            if let Some((place, value)) = damage {
                let at = place.index(bytes.len());
                bytes[at] = value;
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn no_bytes_instead_of_headers_do_harm(bytes in any::<[u8; HEADER]>(), kind in 0_u8..11) {
            let mut bytes = bytes;
            header(&bytes);
            bytes[..2].copy_from_slice(&[kind, 0]);
            bytes[10..12].fill(0);
            header(&bytes);
        }

        #[test]
        fn no_frames_with_damage_do_harm(bytes in damaged(), piece in 1_usize..2000) {
            frames(&bytes, piece, false);
            frames(&bytes, piece, true);
        }
    }

    #[test]
    fn whole_frames_are_read_in_pieces_of_any_size() {
        let header = Header { bytes: 3, ..word(Kind::Letter, 7, 0, 2) };
        let frame = [&header.encode()[..], b"abc", header.seal()].concat();
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let socket = Arc::new(TcpStream::from(OwnedFd::from(near)));
        let mut stream = Stream::new(Pipe::new(socket, None), false);
        let mut lengths = Vec::new();
        for byte in frame.repeat(2) {
            far.write_all(&[byte]).unwrap();
            lengths.extend(next(&mut stream).filter(|&len| len > 0));
        }
        assert_eq!(lengths, [HEADER + 3, HEADER + 3]);
    }
}
