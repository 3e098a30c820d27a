//! Everything that reads bytes from outside, as functions from bytes that must not panic, hang or
//! take more memory than the bytes deserve. Property tests below and the targets in `fuzz/` call
//! the same ones.

use std::time::{Duration, Instant};

use crate::address::Address;
use crate::auth::{ClientHandshake, GREETING, OPENING, ServerHandshake, Session};
use crate::deadline::clock_now;
use crate::file::record::Header;
use crate::file::replay::{Fed, Replay};
use crate::keeper::Keeper;
use crate::machine::Ticket;
use crate::mirror::Times;
use crate::proto::{Answer, Inbox, Message, Outbox, Word};
use crate::rounds::{Cause, Rounds};
use crate::secret::Secret;

/// What a stranger sends instead of a greeting or an opening.
pub fn handshake(bytes: &[u8]) {
    let secret = secret();
    let mut greeting = [0; GREETING];
    fill(&mut greeting, bytes);
    let _ = ClientHandshake::open(&secret, &greeting, "fuzz");
    let server = ServerHandshake::new(&secret).expect("the system has random numbers");
    let mut opening = [0; OPENING];
    fill(&mut opening, bytes);
    let _ = ServerHandshake::look(bytes);
    assert!(server.answer(&opening).is_err(), "an opening was forged");
}

/// What comes instead of sealed records, in pieces.
pub fn records(bytes: &[u8], piece: usize) {
    let (_, server) = sessions();
    let mut inbox = Inbox::new(server.opener);
    for piece in bytes.chunks(piece.max(1)) {
        if inbox.feed(piece).is_err() {
            return;
        }
        assert!(matches!(inbox.take::<Message<'_>>(), Ok(None)), "a record was forged");
    }
}

/// What a member sends, properly sealed, instead of messages; whatever is understood is done.
pub fn messages(plain: &[u8], piece: usize) {
    let (mut client, server) = sessions();
    let now = clock_now();
    let mut keeper = Keeper::first(Times::within(Duration::ZERO));
    let mut outbox = Outbox::new(server.sealer);
    let mut inbox = Inbox::new(server.opener);
    for piece in plain.chunks(piece.max(1)) {
        let mut wire = Vec::new();
        client.sealer.seal(piece, &mut wire);
        inbox.feed(&wire).expect("it was sealed");
        loop {
            match inbox.take() {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(message)) => obey(&mut keeper, message, now),
            }
            for (Ticket { call, .. }, reply) in keeper.answers.drain(..) {
                outbox.push(&Word::Answer(Answer { call, reply }));
            }
        }
    }
    keeper.forget(1, now);
}

fn obey(keeper: &mut Keeper, message: Message<'_>, now: Instant) {
    match message {
        Message::Cancel { call } => keeper.cancel(Ticket { client: 1, call }, now),
        Message::Call { call, wait, done, request } => {
            keeper.call(Ticket { client: 1, call }, wait, &done, &request, now);
        }
        Message::Hello { client, epoch, open } => keeper.welcome(client, epoch, &open, now),
        Message::Attach { .. } => drop(keeper.attach(now)),
        Message::Have { index } => keeper.have(index, now),
        Message::Took => keeper.depose(),
    }
}

/// What a store sends, properly sealed, to one that follows it; whatever is understood is done.
pub fn notes(plain: &[u8]) {
    let (client, mut server) = sessions();
    let mut wire = Vec::new();
    server.sealer.seal(plain, &mut wire);
    let mut inbox = Inbox::new(client.opener);
    inbox.feed(&wire).expect("it was sealed");
    let now = clock_now();
    let mut keeper = Keeper::second(now, Times::within(Duration::ZERO));
    while let Ok(Some(word)) = inbox.take() {
        if let Word::Note(note) = word
            && keeper.hear(note, now).is_err()
        {
            return;
        }
    }
}

/// What a server sends, properly sealed, instead of answers.
pub fn answers(plain: &[u8]) {
    let (client, mut server) = sessions();
    let mut wire = Vec::new();
    server.sealer.seal(plain, &mut wire);
    let mut inbox = Inbox::new(client.opener);
    inbox.feed(&wire).expect("it was sealed");
    while let Ok(Some(_)) = inbox.take::<Word>() {}
}

/// What stands in a store's file.
pub fn file(bytes: &[u8]) {
    let mut header = [0; Header::SIZE];
    fill(&mut header, bytes);
    let _ = Header::parse(&header);
    let fed = Replay::from(0).feed(bytes, bytes.len() as u64);
    assert!(!matches!(fed, Ok(Fed::Needs(_))), "all there is was given");
}

/// What stands where the state of rounds should be.
pub fn rounds(bytes: &[u8]) {
    let Ok(mut rounds) = postcard::from_bytes::<Rounds>(bytes) else { return };
    let now = crate::deadline::clock_now();
    rounds.decide(now, now);
    for id in rounds.nodes.iter().map(|node| node.id).collect::<Vec<_>>() {
        rounds.neighbour(id);
        rounds.finish(id);
    }
    rounds.close();
    rounds.call(Cause::First);
    rounds.close();
}

/// What people type.
pub fn text(text: &str) {
    if let Ok(address) = text.parse::<Address>() {
        let again: Address = address.place.to_string().parse().expect("it is shown as it is read");
        assert_eq!(again.place, address.place);
    }
    let _ = text.parse::<Secret>();
}

/// Two ends of a connection, without the costly handshake.
fn sessions() -> (Session, Session) {
    (Session::new([1; 32], [2; 32]), Session::new([2; 32], [1; 32]))
}

fn secret() -> Secret {
    "5e".repeat(32).parse().expect("64 digits")
}

/// The start of `bytes`, padded with zeros.
fn fill(buffer: &mut [u8], bytes: &[u8]) {
    let count = buffer.len().min(bytes.len());
    buffer[..count].copy_from_slice(&bytes[..count]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proto::{Entry, Note};
    use crate::request::{Pair, Reply, Request};

    /// Requests that mean something, over few keys, so that they meet.
    fn request() -> impl Strategy<Value = Vec<u8>> {
        let key = prop::sample::select(vec!["a", "b", "c", ""]);
        let value = prop::collection::vec(any::<u8>(), 0..20);
        (0_u8..18, key.clone(), key, value, any::<i64>(), any::<u32>()).prop_map(
            |(verb, key, other, value, delta, rank)| {
                let keys = vec![key, other];
                let value = &value[..];
                let request = match verb {
                    0 => Request::Set { key, value },
                    1 => Request::Get { key },
                    2 => Request::GetChanged { key, known: value },
                    3 => Request::MultiGet { keys },
                    4 => Request::MultiSet { pairs: vec![Pair { key, value }] },
                    5 => Request::Add { key, delta },
                    6 => Request::CompareSet { key, expect: Some(value), new: b"7" },
                    7 => Request::Append { key, value },
                    8 => Request::Wait { keys },
                    9 => Request::Delete { key },
                    10 => Request::Count { prefix: key },
                    11 => Request::List { prefix: key },
                    12 => Request::Push { key, value },
                    13 => Request::Pop { key },
                    14 => Request::QueueLen { key },
                    15 => Request::Arrive { key, rank: rank % 3, world: rank / 3 },
                    16 => Request::Pass { key, generation: 0 },
                    _ => Request::Withdraw { key, rank: rank % 3, generation: 0 },
                };
                let (call, done) = (delta.unsigned_abs(), vec![u64::from(rank)]);
                framed(&match rank % 17 {
                    0 => Message::Hello { client: 1, epoch: call, open: done },
                    1 => Message::Attach { address: ([127, 0, 0, 1], 1).into() },
                    2 => Message::Have { index: call },
                    3 if delta % 5 == 0 => Message::Took,
                    _ => Message::Call { call, wait: rank % 2 == 0, done, request },
                })
            },
        )
    }

    /// Notes that mean something.
    fn note() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..20);
        (0_u8..7, 0_u64..4, bytes, request()).prop_map(|(kind, number, bytes, message)| {
            let mut request = serde_bytes::ByteBuf::from(bytes);
            if let Ok(Message::Call { request: made, .. }) = postcard::from_bytes(&message[4..]) {
                request = serde_bytes::ByteBuf::from(postcard::to_allocvec(&made).unwrap());
            }
            let (client, call, index) = (number, number, number);
            framed(&Word::Note(match kind {
                0 => Note::Part(request),
                1 => Note::Receipt { client, call, reply: Reply::Done },
                2 => Note::Whole { epoch: u64::MAX, index: 0 },
                3 => Note::Entry { index, entry: Entry::Paired { epoch: u64::MAX } },
                4 => Note::Entry { index, entry: Entry::Gone { client } },
                _ => Note::Entry { index, entry: Entry::Change { client, call, request } },
            }))
        })
    }

    fn framed(what: &impl serde::Serialize) -> Vec<u8> {
        let body = postcard::to_allocvec(what).unwrap();
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_handshake_from_a_stranger_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            handshake(&bytes);
            handshake(&[b"consort\n\x01\0\0\0", &bytes[..]].concat());
        }

        #[test]
        fn no_bytes_instead_of_records_do_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..3000), piece in 1_usize..200,
        ) {
            records(&bytes, piece);
        }

        #[test]
        fn no_bytes_instead_of_messages_do_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..50,
        ) {
            messages(&bytes, piece);
            answers(&bytes);
        }

        #[test]
        fn no_sequence_of_messages_with_damage_does_harm(
            requests in prop::collection::vec(request(), 0..40),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            piece in 1_usize..500,
        ) {
            let mut bytes = requests.concat();
            for (place, mask) in flips {
                if !bytes.is_empty() {
                    let at = place.index(bytes.len());
                    bytes[at] ^= mask;
                }
            }
            messages(&bytes, piece);
        }

        #[test]
        fn no_sequence_of_notes_with_damage_does_harm(
            list in prop::collection::vec(note(), 0..40),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut bytes = list.concat();
            for (place, mask) in flips {
                if !bytes.is_empty() {
                    let at = place.index(bytes.len());
                    bytes[at] ^= mask;
                }
            }
            notes(&bytes);
        }

        #[test]
        fn a_store_that_follows_holds_the_same(
            requests in prop::collection::vec(request(), 0..60), attach in 0_usize..60,
        ) {
            let now = clock_now();
            let mut first = Keeper::first(Times::within(Duration::ZERO));
            let mut second = Keeper::second(now, Times::within(Duration::ZERO));
            for (turn, message) in requests.iter().enumerate() {
                if turn == attach {
                    assert!(first.attach(now));
                }
                match postcard::from_bytes(&message[4..]).unwrap() {
                    Message::Attach { .. } | Message::Took | Message::Have { .. } => {}
                    Message::Hello { client, open, .. } => first.welcome(client, 0, &open, now),
                    message => obey(&mut first, message, now),
                }
                for note in first.notes.drain(..) {
                    second.hear(note, now).unwrap();
                }
            }
            if attach < requests.len() {
                assert_eq!(first.contents(), second.contents());
            }
        }

        #[test]
        fn no_state_of_rounds_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            rounds(&bytes);
            file(&bytes);
        }

        #[test]
        fn nothing_people_type_does_harm(line in ".{0,80}") {
            text(&line);
            text(&format!("tcp://{line}"));
        }
    }
}
