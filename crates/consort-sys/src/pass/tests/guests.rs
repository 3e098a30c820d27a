//! Who comes to a door in the tests.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags};
use rustix::process::Uid;

use super::super::frame::{self, Gift, Hello};
use super::super::{Door, Offer, PassError, Peer, PeerDoor, address_of};

pub(super) const TOKEN: [u8; 32] = [5; 32];
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// The user that owns nothing.
pub(super) const NOBODY: u32 = 65534;

pub(super) fn soon(limit: Duration) -> Instant {
    Instant::now() + limit
}

pub(super) fn file(size: u64) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, size).unwrap();
    file
}

/// Every rank brings a file of its own size.
pub(super) fn size_for(rank: u32) -> u64 {
    1000 + u64::from(rank)
}

pub(super) fn doors(ranks: &[u32]) -> (Vec<Door>, Vec<PeerDoor>) {
    let open = |&rank: &u32| {
        let door = Door::open().unwrap();
        let name = door.name().to_owned();
        (door, PeerDoor { rank, name, process: Some(std::process::id()) })
    };
    ranks.iter().map(open).unzip()
}

/// Lets these ranks meet, each in a thread. `before` is called for each of them when its door is
/// open and it is not there yet.
pub(super) fn meet(
    ranks: &[u32],
    mut before: impl FnMut(u32, &[PeerDoor]),
) -> Vec<(u32, Result<Vec<Peer>, PassError>)> {
    let (doors, all) = doors(ranks);
    let until = soon(LIMIT);
    let threads = ranks.iter().zip(doors).map(|(&rank, door)| {
        before(rank, &all);
        let peers: Vec<_> = all.iter().filter(|peer| peer.rank != rank).cloned().collect();
        thread::spawn(move || {
            let file = file(size_for(rank));
            let offer = Offer { rank, descriptor: file.as_fd(), second: None, token: &TOKEN };
            (rank, door.exchange(offer, &peers, until))
        })
    });
    threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A connection that says what the test wants.
pub(super) struct Guest {
    socket: OwnedFd,
}

impl Guest {
    pub(super) fn knock(name: &str) -> Self {
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &address_of(name).unwrap()).unwrap();
        Self { socket }
    }

    pub(super) fn say(&self, words: &[u8]) {
        match rustix::net::send(&self.socket, words, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Does all that rank 0 does at the door of rank 1 until both are proven.
    pub(super) fn come_as_rank_0(&self, token: &[u8; 32]) {
        let mine = Hello { from: 0, to: 1, challenge: [1; 32] };
        self.say(&mine.encode());
        let mut theirs = [0; Hello::LEN];
        rustix::net::recv(&self.socket, &mut theirs[..], RecvFlags::WAITALL).unwrap();
        let theirs = Hello::decode(&theirs).unwrap();
        self.say(frame::proof(token, &mine, &theirs).as_bytes());
        let mut proof = [0; frame::PROOF_LEN];
        rustix::net::recv(&self.socket, &mut proof[..], RecvFlags::WAITALL).unwrap();
        assert_eq!(frame::proof(token, &theirs, &mine), proof);
    }

    pub(super) fn give(&self, gift: Gift, descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let frame = gift.encode();
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&frame)], &mut control, flags).unwrap();
    }

    /// How many bytes come next; none when the other side has hung up.
    pub(super) fn hear(&self) -> usize {
        let mut bytes = [0; 64];
        match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::CONNRESET) => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Users belong to threads: this takes one that ends afterwards.
fn as_another_user<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let other = move || {
        let user = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        act()
    };
    thread::spawn(other).join().unwrap()
}

pub(super) fn door_of_another_user() -> (Door, String) {
    let door = as_another_user(|| Door::open().unwrap());
    let name = door.name().to_owned();
    (door, name)
}

pub(super) fn knock_as_another_user(name: &str) -> Guest {
    let name = name.to_owned();
    as_another_user(move || Guest::knock(&name))
}
