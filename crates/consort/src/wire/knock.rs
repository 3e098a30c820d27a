//! The first thing that is said on a connection: for which rank of the host it is.
//!
//! All ranks of a host listen together, and whoever waits accepts. A connection is passed on before
//! anything else happens on it, so that a rank that has accepted it and is busy then holds up nobody.
//! The rank that it is for has the handshake with the caller, and no keys leave a process.
//!
//! A knock is no proof of who calls, the handshake is. But who does not know the job's secret cannot
//! knock, and so takes no place from those who can.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::Secret;

/// What somebody says who wants this rank.
pub(super) fn knock(secret: &Secret, to: u32) -> [u8; KNOCK] {
    let mut bytes = [0; KNOCK];
    let (rank, proof) = bytes.split_at_mut(RANK);
    rank.copy_from_slice(&to.to_le_bytes());
    proof.copy_from_slice(proof_of(secret, to).as_bytes());
    bytes
}

/// Somebody who has come and not said whom it wants.
#[derive(Debug)]
pub(super) struct Knocking {
    pub(super) socket: Arc<TcpStream>,
    pub(super) peer: SocketAddr,
    bytes: [u8; KNOCK],
    received: usize,
    since: Instant,
}

/// What comes of it.
#[derive(Debug)]
pub(super) enum Knocked {
    NotYet(Knocking),
    /// It wants this rank.
    Wants(u32),
    Refused(String),
}

impl Knocking {
    /// Over a socket that does not block.
    pub(super) fn new(socket: Arc<TcpStream>, peer: SocketAddr) -> Self {
        Self { socket, peer, bytes: [0; KNOCK], received: 0, since: Instant::now() }
    }

    /// Listens as far as it has spoken.
    pub(super) fn go_on(mut self, secret: &Secret) -> Knocked {
        while self.received < KNOCK {
            match (&*self.socket).read(&mut self.bytes[self.received..]) {
                Ok(0) => return Knocked::Refused("it hung up".to_owned()),
                Ok(read) => self.received += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Knocked::Refused(error.to_string());
                }
                Err(_) if self.since.elapsed() > HURRY => {
                    return Knocked::Refused("it did not say in time whom it wants".to_owned());
                }
                Err(_) => return Knocked::NotYet(self),
            }
        }
        match understood(secret, &self.bytes) {
            Some(to) => Knocked::Wants(to),
            None => Knocked::Refused("it does not knock as the ranks of this job do".to_owned()),
        }
    }
}

fn understood(secret: &Secret, bytes: &[u8; KNOCK]) -> Option<u32> {
    let (rank, proof) = bytes.split_first_chunk::<RANK>()?;
    let to = u32::from_le_bytes(*rank);
    let proof: &[u8; PROOF] = proof.try_into().ok()?;
    // Compares in constant time.
    (proof_of(secret, to) == *proof).then_some(to)
}

fn proof_of(secret: &Secret, to: u32) -> blake3::Hash {
    let key = blake3::derive_key("consort wire knock", secret.to_hex().as_bytes());
    blake3::keyed_hash(&key, &to.to_le_bytes())
}

const RANK: usize = 4;
const PROOF: usize = 32;
/// Bytes of a knock.
pub(super) const KNOCK: usize = RANK + PROOF;
/// How long somebody may take to say whom it wants.
const HURRY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knock_says_for_whom_it_is_to_those_who_know_the_secret() {
        let (secret, other) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_eq!(understood(&secret, &knock(&secret, 7)), Some(7));
        assert_eq!(understood(&secret, &knock(&other, 7)), None);
        let mut changed = knock(&secret, 7);
        changed[0] = 6;
        assert_eq!(understood(&secret, &changed), None);
    }
}
