//! One connection between two ranks, at either side of it.
//!
//! Both sides say hello, the one that dialled first; then both prove themselves; then both give.
//! Nothing here waits: a talk is driven by whoever sees that there is something to read.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::credentials::Credentials;
use super::error::Refusal;
use super::frame::{self, Gift, Hello, PROOF_LEN};
use super::{Offer, Peer};
use crate::life::Life;

#[derive(Debug)]
pub(super) struct Talk {
    socket: OwnedFd,
    pub(super) who: Credentials,
    pub(super) life: Life,
    pub(super) began: Instant,
    /// The rank at whose door this is; `None` if the other side dialled.
    pub(super) dialled: Option<u32>,
    challenge: [u8; 32],
    stage: Stage,
    frame: [u8; LONGEST],
    filled: usize,
    descriptors: Vec<OwnedFd>,
    /// Whether the system has kept back some of them.
    cut: bool,
    given: bool,
}

#[derive(Debug)]
enum Stage {
    Greeting,
    Proving { mine: Hello, theirs: Hello },
    Giving { rank: u32 },
    Given { rank: u32 },
}

impl Talk {
    /// Begins to talk. The life is taken before the challenge is sent, so that the answer shows
    /// that it is the right one.
    pub(super) fn begin(
        socket: OwnedFd,
        who: Credentials,
        offer: &Offer<'_>,
        dialled: Option<u32>,
    ) -> Result<Self, Refusal> {
        let life = Life::of(who.process);
        let mut challenge = [0; 32];
        getrandom::fill(&mut challenge).map_err(|_| Refusal::HungUp(Errno::IO))?;
        let talk = Self {
            socket,
            who,
            life,
            began: Instant::now(),
            dialled,
            challenge,
            stage: Stage::Greeting,
            frame: [0; LONGEST],
            filled: 0,
            descriptors: Vec::new(),
            cut: false,
            given: false,
        };
        if let Some(to) = dialled {
            talk.say(&Hello { from: offer.rank, to, challenge }.encode())?;
        }
        Ok(talk)
    }

    /// Goes on as far as what has arrived allows. Returns who it was when all is done. `admit`
    /// decides whether the rank that says hello is expected.
    pub(super) fn go_on(
        &mut self,
        offer: &Offer<'_>,
        size: u64,
        admit: impl Fn(&Hello, Credentials) -> Result<(), Refusal>,
    ) -> Result<Option<u32>, Refusal> {
        loop {
            match self.stage {
                Stage::Greeting => {
                    let Some(theirs) = self.hear::<{ Hello::LEN }>()? else { return Ok(None) };
                    let theirs = Hello::decode(&theirs)?;
                    admit(&theirs, self.who)?;
                    let mine =
                        Hello { from: offer.rank, to: theirs.from, challenge: self.challenge };
                    if self.dialled.is_none() {
                        self.say(&mine.encode())?;
                    }
                    self.say(frame::proof(offer.token, &mine, &theirs).as_bytes())?;
                    self.stage = Stage::Proving { mine, theirs };
                }
                Stage::Proving { mine, theirs } => {
                    let Some(proof) = self.hear::<PROOF_LEN>()? else { return Ok(None) };
                    // Compares in constant time.
                    if frame::proof(offer.token, &theirs, &mine) != proof {
                        return Err(Refusal::Token);
                    }
                    self.stage = Stage::Giving { rank: theirs.from };
                }
                Stage::Giving { rank } => {
                    self.given = self.given || self.give(offer, size)?;
                    let Some(gift) = self.hear::<{ Gift::LEN }>()? else { return Ok(None) };
                    self.check(Gift::decode(&gift)?, offer.count())?;
                    self.stage = Stage::Given { rank };
                }
                Stage::Given { rank } => {
                    self.given = self.given || self.give(offer, size)?;
                    return Ok(self.given.then_some(rank));
                }
            }
        }
    }

    /// Which rank it has proved to be.
    pub(super) fn proven(&self) -> Option<u32> {
        match self.stage {
            Stage::Greeting | Stage::Proving { .. } => None,
            Stage::Giving { rank } | Stage::Given { rank } => Some(rank),
        }
    }

    /// What was handed over, when all is done.
    pub(super) fn into_gift(self) -> Option<Peer> {
        let Stage::Given { rank } = self.stage else { return None };
        let mut descriptors = self.descriptors.into_iter();
        let (descriptor, second) = (descriptors.next()?, descriptors.next());
        Some(Peer { rank, descriptor, second, process: self.who.process, life: self.life })
    }

    /// Reads a frame, no byte more; `None` while it is not whole.
    fn hear<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, Refusal> {
        while self.filled < LEN {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut rest = [IoSliceMut::new(&mut self.frame[self.filled..LEN])];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            match rustix::net::recvmsg(&self.socket, &mut rest, &mut control, flags) {
                Ok(heard) if heard.bytes == 0 => return Err(Refusal::HungUp(Errno::CONNRESET)),
                Ok(heard) => {
                    self.filled += heard.bytes;
                    self.cut |= heard.flags.contains(ReturnFlags::CTRUNC);
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(Refusal::HungUp(error)),
            }
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    self.descriptors.extend(descriptors);
                }
            }
            if !self.descriptors.is_empty() && self.proven().is_none() {
                return Err(Refusal::Foreign);
            }
        }
        self.filled = 0;
        Ok(self.frame.first_chunk().copied())
    }

    /// All that is ever said fits into an empty socket.
    fn say(&self, frame: &[u8]) -> Result<(), Refusal> {
        let said = rustix::net::send(&self.socket, frame, SendFlags::NOSIGNAL);
        if said.map_err(Refusal::HungUp)? == frame.len() {
            Ok(())
        } else {
            Err(Refusal::HungUp(Errno::NOBUFS))
        }
    }

    /// Hands the descriptor over. Not yet, when too many of this user's are on their way.
    fn give(&self, offer: &Offer<'_>, size: u64) -> Result<bool, Refusal> {
        let frame = Gift { from: offer.rank, size }.encode();
        let descriptors = [offer.descriptor, offer.second.unwrap_or(offer.descriptor)];
        let descriptors = &descriptors[..offer.count()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits, "there is space for them");
        let frame = [IoSlice::new(&frame)];
        match rustix::net::sendmsg(&self.socket, &frame, &mut control, SendFlags::NOSIGNAL) {
            Ok(Gift::LEN) => Ok(true),
            Ok(_) => Err(Refusal::HungUp(Errno::NOBUFS)),
            Err(Errno::TOOMANYREFS | Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(Refusal::HungUp(error)),
        }
    }

    fn check(&self, gift: Gift, expected: usize) -> Result<(), Refusal> {
        let found = self.descriptors.len();
        if found < expected && self.cut {
            return Err(Refusal::NoPlace);
        }
        let [descriptor, ..] = &self.descriptors[..] else {
            return Err(Refusal::Descriptors { found, expected });
        };
        if found != expected {
            return Err(Refusal::Descriptors { found, expected });
        }
        let found = super::size_of(descriptor.as_fd()).unwrap_or_default();
        if found != gift.size {
            return Err(Refusal::Size { found, announced: gift.size });
        }
        Ok(())
    }
}

impl AsFd for Talk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const LONGEST: usize = Hello::LEN;
/// How many descriptors one gives.
const MOST: usize = 2;
