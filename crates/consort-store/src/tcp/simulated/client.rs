//! A client without threads. It does what a [`TcpStore`](crate::TcpStore) does whose store has a standby:
//! when its connection is lost it makes another, and its open calls again.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use consort_testkit::net::{End, Event, Net, Socket};

use crate::auth::{ANSWER, ClientHandshake, GREETING, OPENING};
use crate::error::HandshakeError;
use crate::proto::{Answer, Inbox, Message, Outbox, Word};
use crate::request::{Reply, Request};
use crate::secret::Secret;

/// One client, on a host.
pub(crate) struct Client {
    net: Net,
    host: usize,
    secret: Secret,
    number: u64,
    line: Line,
    next_call: u64,
    /// Calls without an answer: whether they wait, and the request, encoded.
    open: BTreeMap<u64, (bool, Vec<u8>)>,
    done: Vec<u64>,
    /// The last opening it has sent.
    pub(super) opening: Option<[u8; OPENING]>,
    /// It reads nothing for now.
    pub(super) is_deaf: bool,
    /// What it writes next is damaged on the way.
    pub(super) damages: bool,
    /// How often it had to connect again.
    pub(super) again: u64,
}

/// How far a connection has come.
enum Line {
    None,
    Greeting { socket: Socket, bytes: Vec<u8> },
    Answer { socket: Socket, handshake: Box<ClientHandshake>, bytes: Vec<u8> },
    Open { socket: Socket, inbox: Inbox, outbox: Outbox, is_served: bool },
}

/// Why a connection is of no more use.
enum Broken {
    Lost,
    Refused(HandshakeError),
}

impl Client {
    pub(crate) fn new(net: &Net, host: usize, secret: &Secret, number: u64) -> Self {
        Self {
            net: net.clone(),
            host,
            secret: secret.clone(),
            number,
            line: Line::None,
            next_call: 0,
            open: BTreeMap::new(),
            done: Vec::new(),
            opening: None,
            is_deaf: false,
            damages: false,
            again: 0,
        }
    }

    /// Connects to the store on this host, if it is not connected.
    pub(crate) fn dial(&mut self, to: usize) {
        if let Line::None = self.line {
            let socket = self.net.connect(self.host, to);
            self.line = Line::Greeting { socket, bytes: Vec::new() };
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        !matches!(self.line, Line::None)
    }

    /// Whether it has taken whom it is connected to for its store.
    pub(super) fn is_served(&self) -> bool {
        matches!(self.line, Line::Open { .. })
    }

    pub(super) fn end(&self) -> Option<End> {
        match &self.line {
            Line::None => None,
            Line::Greeting { socket, .. }
            | Line::Answer { socket, .. }
            | Line::Open { socket, .. } => Some(socket.end()),
        }
    }

    /// Begins a call, and gives its number.
    pub(crate) fn call(&mut self, wait: bool, request: &Request<'_>) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        self.open.insert(call, (wait, postcard::to_allocvec(request).unwrap()));
        let done = if self.is_ready() { std::mem::take(&mut self.done) } else { Vec::new() };
        self.say(&Message::Call { call, wait, done, request: request.clone() });
        call
    }

    /// Has a call wait no longer.
    pub(crate) fn cancel(&mut self, call: u64) {
        self.say(&Message::Cancel { call });
    }

    /// Gives up on a call.
    pub(crate) fn abandon(&mut self, call: u64) {
        if self.open.remove(&call).is_some() {
            self.done.push(call);
        }
    }

    /// Something has happened to its connection. Gives the answers that have come.
    pub(crate) fn hear(&mut self, event: &Event) -> Vec<(u64, Reply)> {
        let concerns = match event {
            Event::Readable(end) | Event::Writable(end) => self.end() == Some(*end),
            Event::Opened(_) | Event::Alarm(_) => false,
        };
        if !concerns || self.is_deaf {
            return Vec::new();
        }
        self.catch_up()
    }

    /// Reads and writes what it can.
    pub(super) fn catch_up(&mut self) -> Vec<(u64, Reply)> {
        let mut answers = Vec::new();
        if let Err(broken) = self.read(&mut answers).and_then(|()| self.write()) {
            if let Broken::Refused(why) = broken {
                self.net.show(|| format!("client {}: {why}", self.number));
            }
            self.hang_up();
        }
        answers
    }

    pub(super) fn hang_up(&mut self) {
        self.line = Line::None;
        self.again += 1;
    }

    fn read(&mut self, answers: &mut Vec<(u64, Reply)>) -> Result<(), Broken> {
        let mut scratch = [0; 700];
        loop {
            let socket = match &mut self.line {
                Line::None => return Ok(()),
                Line::Greeting { socket, .. }
                | Line::Answer { socket, .. }
                | Line::Open { socket, .. } => socket,
            };
            match socket.read(&mut scratch) {
                Ok(0) => return Err(Broken::Lost),
                Ok(count) => self.take(&scratch[..count], answers)?,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Broken::Lost),
            }
        }
    }

    /// Takes bytes, as far as the present part of the conversation goes, then those behind it.
    fn take(&mut self, bytes: &[u8], answers: &mut Vec<(u64, Reply)>) -> Result<(), Broken> {
        match std::mem::replace(&mut self.line, Line::None) {
            Line::None => Ok(()),
            Line::Greeting { mut socket, bytes: mut have } => {
                let rest = fill(&mut have, bytes, GREETING);
                let Some(greeting) = have.first_chunk() else {
                    self.line = Line::Greeting { socket, bytes: have };
                    return Ok(());
                };
                let (handshake, opening) = ClientHandshake::open(&self.secret, greeting, "member")
                    .map_err(Broken::Refused)?;
                self.opening = Some(opening);
                socket.write_all(&opening).map_err(|_| Broken::Lost)?;
                self.line =
                    Line::Answer { socket, handshake: Box::new(handshake), bytes: Vec::new() };
                self.take(rest, answers)
            }
            Line::Answer { socket, handshake, bytes: mut have } => {
                let rest = fill(&mut have, bytes, ANSWER);
                if let Some(&first) = have.first() {
                    ClientHandshake::look(first).map_err(Broken::Refused)?;
                }
                let Some(answer) = have.first_chunk() else {
                    self.line = Line::Answer { socket, handshake, bytes: have };
                    return Ok(());
                };
                let session = handshake.finish(answer).map_err(Broken::Refused)?;
                let (inbox, outbox) = (Inbox::new(session.opener), Outbox::new(session.sealer));
                self.line = Line::Open { socket, inbox, outbox, is_served: false };
                let open = self.open.keys().copied().collect();
                self.push(&Message::Hello { client: self.number, epoch: 0, open });
                self.take(rest, answers)
            }
            Line::Open { socket, mut inbox, outbox, is_served } => {
                inbox.feed(bytes).map_err(|_| Broken::Lost)?;
                let mut words = Vec::new();
                while let Some(word) = inbox.take().map_err(|_| Broken::Lost)? {
                    words.push(word);
                }
                self.line = Line::Open { socket, inbox, outbox, is_served };
                words.into_iter().for_each(|word| self.heed(word, answers));
                Ok(())
            }
        }
    }

    fn heed(&mut self, word: Word, answers: &mut Vec<(u64, Reply)>) {
        match word {
            Word::Answer(Answer { call, reply }) => {
                if self.open.remove(&call).is_some() {
                    self.done.push(call);
                    answers.push((call, reply));
                }
            }
            Word::House(house) => {
                assert_eq!(house.aside, "", "a store without a standby serves");
                if let Line::Open { is_served, .. } = &mut self.line
                    && !std::mem::replace(is_served, true)
                {
                    self.call_again();
                }
            }
            Word::Note(note) => panic!("{note:?} is not for clients"),
        }
    }

    fn call_again(&mut self) {
        self.done.clear();
        for (call, (wait, request)) in std::mem::take(&mut self.open) {
            let made = postcard::from_bytes(&request).unwrap();
            self.push(&Message::Call { call, wait, done: Vec::new(), request: made });
            self.open.insert(call, (wait, request));
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.line, Line::Open { is_served: true, .. })
    }

    /// Says something, if there is somebody to say it to.
    fn say(&mut self, message: &Message<'_>) {
        if self.is_ready() {
            self.push(message);
            if self.write().is_err() {
                self.hang_up();
            }
        }
    }

    fn push(&mut self, message: &Message<'_>) {
        if let Line::Open { outbox, .. } = &mut self.line {
            outbox.push(message);
        }
    }

    fn write(&mut self) -> Result<(), Broken> {
        let Line::Open { socket, outbox, .. } = &mut self.line else { return Ok(()) };
        while !outbox.is_empty() {
            let mut unsent = outbox.unsent().to_vec();
            if std::mem::take(&mut self.damages) {
                // In the last record's seal. If it were in a length, more would be waited for.
                let at = unsent.len() - 1 - self.net.pick(16);
                unsent[at] ^= 1 << self.net.roll(8);
                self.net.show(|| format!("client {} writes something damaged", self.number));
            }
            match socket.write(&unsent) {
                Ok(count) => outbox.sent(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Broken::Lost),
            }
        }
        Ok(())
    }
}

/// Fills up to a length; gives what is behind that.
fn fill<'a>(have: &mut Vec<u8>, bytes: &'a [u8], length: usize) -> &'a [u8] {
    let (mine, rest) = bytes.split_at(bytes.len().min(length - have.len()));
    have.extend_from_slice(mine);
    rest
}
