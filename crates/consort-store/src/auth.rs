//! The handshake on every TCP connection, and the sealing of what follows. No I/O: bytes in,
//! bytes out.
//!
//! ```text
//! server                                            client
//!   greeting: magic, version, 20 random bytes  ──▶
//!            ◀── opening: magic, version, Noise message 1 (psk, e; the caller's name)
//!   answer: accepted, Noise message 2 (e, ee)  ──▶       … or one byte that says why not
//!            ◀──────── sealed records ────────▶
//! ```
//!
//! The pattern is Noise `NNpsk0` with the job's secret as the pre-shared key. Greeting and
//! opening are the handshake's prologue: both sides prove that they saw the same ones. Because
//! the greeting is random, a recorded opening fails against any other connection; because the
//! key is mixed in first, a wrong secret is found at message 1, before any costly arithmetic.
//! All lengths are fixed, so nothing that a stranger sends decides how much is read or kept.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use snow::{Builder, HandshakeState};

use crate::error::{HandshakeError, Result};
use crate::secret::{Secret, random};

/// The version of everything that goes over a connection. Two sides must have the same.
pub const PROTOCOL_VERSION: u32 = 1;

/// Bytes of the server's greeting.
pub const GREETING: usize = MAGIC.len() + 4 + 20;
/// Bytes of the client's opening.
pub const OPENING: usize = PREAMBLE + NOISE_1;
/// Bytes of an accepting answer; a refusing one has only the first.
pub const ANSWER: usize = 1 + NOISE_2;

/// The longest piece that is sealed at once.
pub const RECORD_PLAIN: usize = NOISE_MAX - TAG;
/// What sealing adds to a piece: its length in front, its tag behind.
pub const RECORD_OVERHEAD: usize = 2 + TAG;

/// The server's side of a handshake: [`greeting`](Self::greeting) goes out first, then
/// [`answer`](Self::answer) takes the client's opening.
#[derive(Debug)]
pub struct ServerHandshake {
    secret: Secret,
    greeting: [u8; GREETING],
}

impl ServerHandshake {
    /// Starts one connection's handshake.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(secret: &Secret) -> Result<Self> {
        let mut greeting = [0; GREETING];
        greeting[..PREAMBLE].copy_from_slice(&preamble());
        greeting[PREAMBLE..].copy_from_slice(&random()?[..GREETING - PREAMBLE]);
        Ok(Self { secret: secret.clone(), greeting })
    }

    /// What to send before anything else.
    pub fn greeting(&self) -> &[u8; GREETING] {
        &self.greeting
    }

    /// Judges the first bytes of an opening, as soon as they are there: a stranger is told from a
    /// peer, and an old peer from a current one, without waiting for the rest.
    ///
    /// # Errors
    /// [`HandshakeError::NotConsort`] or [`HandshakeError::Version`].
    pub fn look(start: &[u8]) -> Result<(), HandshakeError> {
        check_preamble(start)
    }

    /// Takes the client's opening. Gives the answer to send, the session, and the client's name.
    ///
    /// # Errors
    /// Whatever is wrong with the opening; [`refusal`] makes the answer for it.
    pub fn answer(
        self,
        opening: &[u8; OPENING],
    ) -> Result<([u8; ANSWER], Session, String), HandshakeError> {
        check_preamble(opening)?;
        let prologue = prologue(&self.greeting, opening);
        let mut noise = builder(&self.secret, &prologue).build_responder().expect(BUILDS);
        let mut name = [0; NAME];
        noise.read_message(&opening[PREAMBLE..], &mut name).map_err(|_| HandshakeError::Secret)?;
        let mut answer = [0; ANSWER];
        answer[0] = ACCEPTED;
        noise.write_message(&[], &mut answer[1..]).map_err(|_| HandshakeError::Secret)?;
        let (incoming, outgoing) = noise.dangerously_get_raw_split();
        Ok((answer, Session::new(outgoing, incoming), unpad(&name)))
    }
}

/// The client's side of a handshake: [`open`](Self::open) takes the server's greeting,
/// [`finish`](Self::finish) its answer.
#[derive(Debug)]
pub struct ClientHandshake {
    noise: HandshakeState,
}

impl ClientHandshake {
    /// Takes the greeting. Gives the opening to send, in which `name` (cut to 64 bytes) says to
    /// the server's log who calls.
    ///
    /// # Errors
    /// When the server is none of ours, or of another version.
    pub fn open(
        secret: &Secret,
        greeting: &[u8; GREETING],
        name: &str,
    ) -> Result<(Self, [u8; OPENING]), HandshakeError> {
        check_preamble(greeting)?;
        let mut opening = [0; OPENING];
        opening[..PREAMBLE].copy_from_slice(&preamble());
        let prologue = prologue(greeting, &opening);
        let mut noise = builder(secret, &prologue).build_initiator().expect(BUILDS);
        noise
            .write_message(&pad(name), &mut opening[PREAMBLE..])
            .map_err(|_| HandshakeError::Secret)?;
        Ok((Self { noise }, opening))
    }

    /// Judges the first byte of an answer: whether the rest will follow.
    ///
    /// # Errors
    /// Why the server refused.
    pub fn look(first: u8) -> Result<(), HandshakeError> {
        match first {
            ACCEPTED => Ok(()),
            REFUSED_SECRET => Err(HandshakeError::Secret),
            REFUSED_FULL => Err(HandshakeError::Full),
            _ => Err(HandshakeError::NotConsort),
        }
    }

    /// Takes the server's answer.
    ///
    /// # Errors
    /// When the server refused, or cannot prove that it knows the secret.
    pub fn finish(mut self, answer: &[u8; ANSWER]) -> Result<Session, HandshakeError> {
        Self::look(answer[0])?;
        self.noise.read_message(&answer[1..], &mut []).map_err(|_| HandshakeError::Secret)?;
        let (outgoing, incoming) = self.noise.dangerously_get_raw_split();
        Ok(Session::new(outgoing, incoming))
    }
}

/// The one byte that tells a client why it is refused. A client of another version needs none:
/// it has read ours in the greeting.
pub fn refusal(why: &HandshakeError) -> u8 {
    match why {
        HandshakeError::Full => REFUSED_FULL,
        _ => REFUSED_SECRET,
    }
}

/// What a handshake leaves: one [`Sealer`] for what goes out, one [`Opener`] for what comes in.
#[derive(Debug)]
pub struct Session {
    /// For what goes out.
    pub sealer: Sealer,
    /// For what comes in.
    pub opener: Opener,
}

impl Session {
    pub(crate) fn new(outgoing: [u8; 32], incoming: [u8; 32]) -> Self {
        Self { sealer: Sealer(Cipher::new(outgoing)), opener: Opener(Cipher::new(incoming)) }
    }
}

/// Seals a stream of bytes into records: two bytes of length, then the sealed piece.
#[derive(Debug)]
pub struct Sealer(Cipher);

impl Sealer {
    /// Seals all of `plain`, in as many records as it takes, at the end of `wire`.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        for piece in plain.chunks(RECORD_PLAIN) {
            wire.reserve(piece.len() + RECORD_OVERHEAD);
            wire.extend_from_slice(&((piece.len() + TAG) as u16).to_le_bytes());
            let start = wire.len();
            wire.extend_from_slice(piece);
            let nonce = self.0.next_nonce();
            let piece = &mut wire[start..];
            let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::empty(), piece);
            let tag = tag.expect("a record is far shorter than the cipher allows");
            wire.extend_from_slice(tag.as_ref());
        }
    }
}

/// Opens the records of the other side's [`Sealer`], in their order.
#[derive(Debug)]
pub struct Opener(Cipher);

impl Opener {
    /// The length of the record at the start of `wire`, its header included, once it is all there.
    pub fn whole(wire: &[u8]) -> Option<usize> {
        let length = 2 + usize::from(u16::from_le_bytes([*wire.first()?, *wire.get(1)?]));
        (wire.len() >= length).then_some(length)
    }

    /// Opens one whole record at the end of `plain`.
    ///
    /// # Errors
    /// When it is not the next record that the other side sealed: the connection is damaged.
    pub fn open(&mut self, record: &[u8], plain: &mut Vec<u8>) -> Result<(), Forged> {
        let sealed = record.get(2..).ok_or(Forged)?;
        let start = plain.len();
        plain.extend_from_slice(sealed);
        let nonce = self.0.next_nonce();
        let opened = self.0.key.open_in_place(nonce, Aad::empty(), &mut plain[start..]);
        let end = opened.map(|piece| start + piece.len());
        plain.truncate(end.unwrap_or(start));
        end.map(|_| ()).map_err(|_| Forged)
    }
}

/// One direction of a connection as Noise has it after its handshake: a key, and a count of the
/// messages that is each one's nonce. (The library's own transport would set the key up anew for
/// every message, which costs as much as sealing a small one.)
struct Cipher {
    /// Boxed: with its round keys it is large, and sessions move.
    key: Box<LessSafeKey>,
    next: u64,
}

impl Cipher {
    fn new(key: [u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("the key has the cipher's length");
        Self { key: Box::new(LessSafeKey::new(key)), next: 0 }
    }

    /// Four zero bytes and the count, as Noise prescribes for this cipher. No count comes twice:
    /// at a million messages a second it would take half a million years to run out.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cipher").field("next", &self.next).finish_non_exhaustive()
    }
}

/// A record that the other side did not seal, or not as the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record was forged, damaged or out of order")]
pub struct Forged;

fn builder<'a>(secret: &'a Secret, prologue: &'a [u8]) -> Builder<'a> {
    Builder::new(PATTERN.parse().expect("the pattern is valid"))
        .prologue(prologue)
        .and_then(|builder| builder.psk(0, secret.bytes()))
        .expect("each is given once")
}

fn prologue(greeting: &[u8; GREETING], opening: &[u8]) -> [u8; GREETING + PREAMBLE] {
    let mut both = [0; GREETING + PREAMBLE];
    both[..GREETING].copy_from_slice(greeting);
    both[GREETING..].copy_from_slice(&opening[..PREAMBLE]);
    both
}

fn preamble() -> [u8; PREAMBLE] {
    let mut preamble = [0; PREAMBLE];
    preamble[..MAGIC.len()].copy_from_slice(MAGIC);
    preamble[MAGIC.len()..].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    preamble
}

/// Judges as much of a preamble as there is.
fn check_preamble(start: &[u8]) -> Result<(), HandshakeError> {
    let magic = &start[..start.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        return Err(HandshakeError::NotConsort);
    }
    match start.get(MAGIC.len()..PREAMBLE) {
        Some(version) => {
            let theirs = u32::from_le_bytes(version.try_into().expect("a version is four bytes"));
            if theirs == PROTOCOL_VERSION {
                return Ok(());
            }
            Err(HandshakeError::Version { ours: PROTOCOL_VERSION, theirs })
        }
        None => Ok(()),
    }
}

fn pad(name: &str) -> [u8; NAME] {
    let mut cut = name.len().min(NAME);
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut padded = [0; NAME];
    padded[..cut].copy_from_slice(&name.as_bytes()[..cut]);
    padded
}

fn unpad(name: &[u8; NAME]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
    String::from_utf8_lossy(&name[..end]).escape_debug().to_string()
}

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";
const BUILDS: &str = "pattern, key and prologue are complete";
const MAGIC: &[u8; 8] = b"consort\n";
const PREAMBLE: usize = MAGIC.len() + 4;
const NAME: usize = 64;
const NOISE_1: usize = 32 + NAME + TAG;
const NOISE_2: usize = 32 + TAG;
const NOISE_MAX: usize = 65_535;
const TAG: usize = 16;

const ACCEPTED: u8 = 0;
const REFUSED_SECRET: u8 = 1;
const REFUSED_FULL: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        format!("{byte:02x}").repeat(32).parse().unwrap()
    }

    fn sessions() -> (Session, Session) {
        let server = ServerHandshake::new(&secret(1)).unwrap();
        let (client, opening) =
            ClientHandshake::open(&secret(1), server.greeting(), "rank 3").unwrap();
        let (answer, server, name) = server.answer(&opening).unwrap();
        assert_eq!(name, "rank 3");
        (client.finish(&answer).unwrap(), server)
    }

    #[test]
    fn both_sides_read_what_the_other_sealed() {
        let (mut client, mut server) = sessions();
        let plain: Vec<u8> = (0..200_000_u32).map(|i| (i * 7) as u8).collect();
        let (mut wire, mut opened) = (Vec::new(), Vec::new());
        client.sealer.seal(&plain, &mut wire);
        let mut rest = &wire[..];
        while let Some(length) = Opener::whole(rest) {
            server.opener.open(&rest[..length], &mut opened).unwrap();
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        assert_eq!(opened, plain);
    }

    #[test]
    fn a_wrong_secret_is_found_at_the_first_message() {
        let server = ServerHandshake::new(&secret(1)).unwrap();
        let (_, opening) = ClientHandshake::open(&secret(2), server.greeting(), "").unwrap();
        assert_eq!(server.answer(&opening).unwrap_err(), HandshakeError::Secret);
    }

    #[test]
    fn a_recorded_opening_fails_against_another_greeting() {
        let first = ServerHandshake::new(&secret(1)).unwrap();
        let (_, opening) = ClientHandshake::open(&secret(1), first.greeting(), "").unwrap();
        assert!(first.answer(&opening).is_ok());
        let second = ServerHandshake::new(&secret(1)).unwrap();
        assert_eq!(second.answer(&opening).unwrap_err(), HandshakeError::Secret);
    }

    #[test]
    fn a_server_without_the_secret_is_found_out() {
        let impostor = ServerHandshake::new(&secret(2)).unwrap();
        let (client, _) = ClientHandshake::open(&secret(1), impostor.greeting(), "").unwrap();
        let mut answer = [7; ANSWER];
        answer[0] = ACCEPTED;
        assert_eq!(client.finish(&answer).unwrap_err(), HandshakeError::Secret);
    }

    #[test]
    fn another_version_is_named() {
        let mut greeting = *ServerHandshake::new(&secret(1)).unwrap().greeting();
        greeting[MAGIC.len()] = 9;
        let error = ClientHandshake::open(&secret(1), &greeting, "").unwrap_err();
        assert_eq!(error, HandshakeError::Version { ours: PROTOCOL_VERSION, theirs: 9 });
    }

    #[test]
    fn a_stranger_is_known_from_its_first_byte() {
        assert_eq!(ServerHandshake::look(b"G"), Err(HandshakeError::NotConsort));
        assert_eq!(ServerHandshake::look(b"cons"), Ok(()));
    }

    #[test]
    fn a_changed_a_repeated_and_a_swapped_record_are_forged() {
        let (mut client, server) = sessions();
        let key = server.opener.0.key;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        client.sealer.seal(b"first", &mut first);
        client.sealer.seal(b"second", &mut second);
        let attempt = |records: &[&[u8]]| {
            let mut opener = Opener(Cipher { key: key.clone(), next: 0 });
            let mut plain = Vec::new();
            records.iter().try_for_each(|record| opener.open(record, &mut plain))
        };
        let mut changed = first.clone();
        changed[4] ^= 1;
        assert_eq!(attempt(&[&first, &second]), Ok(()));
        assert_eq!(attempt(&[&changed]), Err(Forged));
        assert_eq!(attempt(&[&first, &first]), Err(Forged));
        assert_eq!(attempt(&[&second]), Err(Forged));
        assert_eq!(attempt(&[&[1, 0, 0]]), Err(Forged));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(unpad(&pad(&"é".repeat(40))), "é".repeat(32));
        assert_eq!(unpad(&pad("a\nb")), "a\\nb");
    }
}
