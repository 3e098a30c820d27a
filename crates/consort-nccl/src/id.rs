//! What ranks find each other by.
//!
//! ```text
//!  0        8         12       13   14     16      20        36      52       84      116     128
//!  | magic  | version | family | 0  | port | scope | address | nonce | secret | hash  | zeros |
//! ```
//!
//! The bytes are all that somebody needs to get into the job, and nobody gets in without them. The hash is that of
//! all before it: whoever has lost some on the way hears so, and does not wait for others where nobody is.

use std::ffi::c_char;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use consort::Secret;

use crate::failure::{Failure, Result};

/// What ranks find each other by: `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId {
    /// What only this library reads.
    pub internal: [c_char; BYTES],
}

impl fmt::Debug for UniqueId {
    /// The secret is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Invitation::read(self) {
            Ok(invitation) => write!(f, "an id that leads to {}", invitation.address),
            Err(_) => f.write_str("no id"),
        }
    }
}

/// What an id says.
#[derive(Clone)]
pub(crate) struct Invitation {
    /// Where the ranks meet.
    pub(crate) address: SocketAddr,
    /// Which id it is.
    pub(crate) nonce: [u8; 16],
    /// What they show there.
    pub(crate) secret: Secret,
}

impl Invitation {
    /// What an id says.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn read(id: &UniqueId) -> Result<Self> {
        let bytes = id.internal.map(|byte| byte as u8);
        let is_ours = bytes[..8] == MAGIC && bytes[116..].iter().all(|&byte| byte == 0);
        if !is_ours {
            return Err(Failure::argument(
                "commId is no id of this library: take one from ncclGetUniqueId and hand all of its 128 \
                 bytes to every rank",
            ));
        }
        let version = u32::from_le_bytes(take(&bytes, 8));
        if version != VERSION {
            return Err(Failure::argument(format!(
                "commId was made by another version of this library: its layout is {version}, this one's is \
                 {VERSION}"
            )));
        }
        if take(&bytes, 84) != hash(&bytes) {
            return Err(Failure::argument(
                "commId has changed on the way: hand all of its 128 bytes to every rank as they are",
            ));
        }
        let ip = Ipv6Addr::from(take::<16>(&bytes, 20));
        let (port, scope) =
            (u16::from_le_bytes(take(&bytes, 14)), u32::from_le_bytes(take(&bytes, 16)));
        let address = match (bytes[12], ip.to_ipv4_mapped()) {
            (4, Some(ip)) => SocketAddr::new(IpAddr::V4(ip), port),
            (6, _) => SocketAddrV6::new(ip, port, 0, scope).into(),
            (family, _) => {
                let what = format!("commId has an address of the unknown family {family}");
                return Err(Failure::argument(what));
            }
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let secret = hex(&bytes[52..84]).parse().map_err(|what: String| Failure::argument(what))?;
        Ok(Self { address, nonce: take(&bytes, 36), secret })
    }

    /// As an id.
    pub(crate) fn write(&self) -> UniqueId {
        let mut bytes = [0; BYTES];
        let (family, ip, scope) = match self.address {
            SocketAddr::V4(address) => (4, address.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(address) => (6, *address.ip(), address.scope_id()),
        };
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12] = family;
        bytes[14..16].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[16..20].copy_from_slice(&scope.to_le_bytes());
        bytes[20..36].copy_from_slice(&ip.octets());
        bytes[36..52].copy_from_slice(&self.nonce);
        let hex = self.secret.to_hex();
        for (byte, digits) in bytes[52..84].iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        let hash = hash(&bytes);
        bytes[84..116].copy_from_slice(&hash);
        UniqueId { internal: bytes.map(|byte| byte as c_char) }
    }

    /// The name of the job whose ranks meet there.
    pub(crate) fn job(&self) -> String {
        let digits: String = self.nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("nccl-{digits}")
    }
}

/// Stands for all that an id says.
fn hash(bytes: &[u8; BYTES]) -> [u8; 32] {
    *blake3::hash(&bytes[..84]).as_bytes()
}

fn take<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

/// How long an id is.
const BYTES: usize = 128;
const MAGIC: [u8; 8] = *b"consort\0";
const VERSION: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_was_written_into_it() {
        for address in ["10.0.0.7:4711", "[fd00::7]:65535", "[fe80::1%3]:9"] {
            let address: SocketAddr = address.parse().unwrap();
            let secret = Secret::generate().unwrap();
            let written = Invitation { address, nonce: [9; 16], secret: secret.clone() };
            let read = Invitation::read(&written.write()).unwrap();
            assert_eq!(read.job(), "nccl-09090909090909090909090909090909");
            assert_eq!((read.address, read.nonce, read.secret), (address, [9; 16], secret));
            assert!(!format!("{:?}", written.write()).contains(&written.secret.to_hex()[..8]));
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let address = "10.0.0.7:4711".parse().unwrap();
        let written =
            Invitation { address, nonce: [9; 16], secret: Secret::generate().unwrap() }.write();
        for at in 0..BYTES {
            let mut id = written;
            id.internal[at] ^= 1;
            let text = Invitation::read(&id).err().unwrap().text;
            let words = match at {
                0..8 | 116.. => "no id",
                8..12 => "another version",
                _ => "has changed on the way",
            };
            assert!(text.contains(words), "byte {at}: {text}");
        }
        let mut strange = written.internal.map(|byte| byte as u8);
        strange[12] = 5;
        let sound = hash(&strange);
        strange[84..116].copy_from_slice(&sound);
        let strange = UniqueId { internal: strange.map(|byte| byte as c_char) };
        let text = Invitation::read(&strange).err().unwrap().text;
        assert!(text.contains("the unknown family 5"), "{text}");
    }
}
