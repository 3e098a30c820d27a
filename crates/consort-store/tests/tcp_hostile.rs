//! Strangers, forgers and sluggards at the store's port. Each is refused in bounded time with one
//! line in the log that names it, and nobody else notices.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic and look at the clock"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use consort_store::auth::{ANSWER, ClientHandshake, GREETING, OPENING, Session};
use consort_store::proto::{Inbox, Message, Outbox};
use consort_store::{Deadline, Error, HandshakeError, Request, Secret, Server, Store, TcpStore};
use consort_testkit::threads_called;

#[test]
fn a_wrong_secret_is_refused_and_told_so() {
    let house = House::new();
    let other = Secret::generate().unwrap();
    let started = Instant::now();
    let error = TcpStore::connect(house.server.address(), &other, soon()).unwrap_err();
    let Error::Handshake { reason: HandshakeError::Secret, .. } = error else { panic!("{error}") };
    assert!(started.elapsed() < Duration::from_secs(5), "a final answer is not tried again");
    house.still_serves();
}

#[test]
fn garbage_is_refused_at_its_first_bytes() {
    let house = House::new();
    let mut raw = house.knock();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "does not speak consort's protocol");
    house.still_serves();
}

#[test]
fn a_four_gibibyte_length_from_a_stranger_is_garbage() {
    let house = House::new();
    let mut raw = house.knock();
    raw.write_all(&[0xff; 64]).unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "does not speak consort's protocol");
    house.still_serves();
}

#[test]
fn a_four_gibibyte_length_from_a_member_ends_its_connection_only() {
    let house = House::new();
    let (mut raw, mut session) = house.enter();
    let mut wire = Vec::new();
    session.sealer.seal(&u32::MAX.to_le_bytes(), &mut wire);
    raw.write_all(&wire).unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "4294967295 bytes was announced");
    house.still_serves();
}

#[test]
fn a_message_that_makes_no_sense_ends_its_connection_only() {
    let house = House::new();
    let (mut raw, mut session) = house.enter();
    let mut wire = Vec::new();
    session.sealer.seal(&[3, 0, 0, 0, 0xee, 0xee, 0xee], &mut wire);
    raw.write_all(&wire).unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "could not be understood");
    house.still_serves();
}

#[test]
fn an_old_version_is_refused_by_name() {
    let house = House::new();
    let mut raw = house.knock();
    let mut greeting = [0; GREETING];
    raw.read_exact(&mut greeting).unwrap();
    let (_, mut opening) = ClientHandshake::open(&house.secret, &greeting, "old").unwrap();
    opening[8..12].copy_from_slice(&0_u32.to_le_bytes());
    raw.write_all(&opening).unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "it speaks protocol version 0, this side version 1");
    house.still_serves();
}

#[test]
fn a_replayed_handshake_is_refused() {
    let house = House::new();
    let mut first = house.knock();
    let mut greeting = [0; GREETING];
    first.read_exact(&mut greeting).unwrap();
    let (_, recorded) = ClientHandshake::open(&house.secret, &greeting, "victim").unwrap();
    first.write_all(&recorded).unwrap();
    let mut answer = [1; ANSWER];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0, "the original is accepted");

    let mut replay = house.knock();
    replay.read_exact(&mut greeting).unwrap();
    replay.write_all(&recorded).unwrap();
    assert!(is_closed(&mut replay));
    house.log_names(&replay, "the secrets differ");
    house.still_serves();
}

#[test]
fn a_forged_record_ends_its_connection_only() {
    let house = House::new();
    let (mut raw, mut session) = house.enter();
    let mut wire = Vec::new();
    session.sealer.seal(b"12345678", &mut wire);
    *wire.last_mut().unwrap() ^= 1;
    raw.write_all(&wire).unwrap();
    assert!(is_closed(&mut raw));
    house.log_names(&raw, "forged, damaged or out of order");
    house.still_serves();
}

#[test]
fn one_byte_a_second_does_not_buy_time() {
    let house = House::new();
    let mut raw = house.knock();
    let mut greeting = [0; GREETING];
    raw.read_exact(&mut greeting).unwrap();
    let (_, opening) = ClientHandshake::open(&house.secret, &greeting, "slow").unwrap();
    let started = Instant::now();
    for byte in opening {
        if raw.write_all(&[byte]).is_err() || started.elapsed() > Duration::from_secs(30) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1000));
        house.still_serves();
    }
    let taken = started.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&taken), "{taken:?}");
    house.log_names(&raw, "did not finish the handshake within 10s");
}

#[test]
fn a_silent_stranger_is_sent_away() {
    let house = House::new();
    let mut raw = house.knock();
    raw.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let started = Instant::now();
    let mut all = Vec::new();
    raw.read_to_end(&mut all).unwrap();
    assert!(started.elapsed() > Duration::from_secs(5));
    assert_eq!(all.len(), GREETING + 1);
    house.log_names(&raw, "did not finish the handshake");
    house.still_serves();
}

#[test]
fn a_member_that_never_reads_is_bounded_and_holds_up_nobody() {
    let house = House::new();
    let store = house.member();
    store.set("large", &vec![7; 4 << 20]).unwrap();
    let (mut raw, session) = house.enter();
    let mut outbox = Outbox::new(session.sealer);
    let before = resident_bytes();
    for call in 0..2_000 {
        let request = Request::Get { key: "large" };
        outbox.push(&Message::Call { call, wait: true, done: Vec::new(), request });
    }
    // Eight gigabytes of answers are asked for; the server stops reading after a few.
    raw.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = raw.write_all(outbox.unsent());
    std::thread::sleep(Duration::from_millis(500));
    house.still_serves();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "{} MiB for a deaf client", grown >> 20);

    // Whoever starts to read at last gets every answer.
    let mut inbox = Inbox::new(session.opener);
    let mut buffer = vec![0; 1 << 20];
    let mut answers = 0;
    while answers < 20 {
        let count = raw.read(&mut buffer).unwrap();
        inbox.feed(&buffer[..count]).unwrap();
        while inbox.take::<consort_store::proto::Word>().unwrap().is_some() {
            answers += 1;
        }
    }
}

#[test]
fn thousands_who_never_finish_the_handshake_keep_no_member_out() {
    let house = House::new();
    let mut crowd = Vec::new();
    for _ in 0..3_000 {
        match TcpStream::connect(house.server.address()) {
            Ok(stream) => crowd.push(stream),
            Err(error) => panic!("{error} after {}", crowd.len()),
        }
    }
    house.still_serves();
    house.member().set("late", b"but welcome").unwrap();
}

#[test]
fn a_crowd_of_members_that_come_at_once_is_let_in() {
    let house = House::new();
    let streams: Vec<TcpStream> = (0..1_500).map(|_| house.knock()).collect();
    for mut raw in streams {
        let mut greeting = [0; GREETING];
        raw.read_exact(&mut greeting).unwrap();
        let (_, opening) = ClientHandshake::open(&house.secret, &greeting, "one").unwrap();
        raw.write_all(&opening).unwrap();
        let mut answer = [1; ANSWER];
        raw.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], 0, "a member was refused");
    }
}

#[test]
fn a_barrier_for_billions_costs_nobody_anything() {
    let house = House::new();
    let store = house.member();
    let short = Deadline::after(Duration::from_millis(10));
    assert!(store.barrier("vast", 0, u32::MAX, short).is_err());
    let error = store.barrier("large", 0, 1 << 20, short).unwrap_err().to_string();
    assert!(error.contains("rank 16 and 1048559 more"), "{error}");
    house.still_serves();
}

#[test]
fn more_keys_than_a_request_may_have_are_refused() {
    let house = House::new();
    let store = house.member();
    let keys = vec!["k"; (128 << 10) + 1];
    let error = store.wait(&keys, soon()).unwrap_err().to_string();
    assert!(error.contains("131073 keys is over the limit"), "{error}");
    house.still_serves();
}

#[test]
fn thousands_of_members_are_served_by_one_thread() {
    let house = House::new();
    let idle: Vec<_> = (0..1_500).map(|_| house.enter()).collect();
    let store = house.member();
    for round in 0..100 {
        assert_eq!(store.add("counter", 1).unwrap(), round + 1);
    }
    assert_eq!(threads_called("consort-store"), 1);
    drop(idle);
    house.still_serves();
}

#[test]
fn a_member_that_vanishes_while_it_waits_is_forgotten() {
    let house = House::new();
    let store = house.member();
    for _ in 0..50 {
        let (mut raw, session) = house.enter();
        let mut outbox = Outbox::new(session.sealer);
        let request = Request::Pop { key: "jobs" };
        outbox.push(&Message::Call { call: 0, wait: true, done: Vec::new(), request });
        raw.write_all(outbox.unsent()).unwrap();
        drop(raw);
    }
    // As soon as the server has seen them go, elements go to the living.
    let until = Instant::now() + Duration::from_secs(20);
    while store.queue_len("jobs").unwrap() == 0 {
        assert!(Instant::now() < until, "elements are still given to the dead");
        store.push("jobs", b"one").unwrap();
    }
    assert_eq!(store.pop("jobs", soon()).unwrap(), b"one");
}

#[test]
fn the_servers_end_is_an_error_for_waiting_clients_not_a_hang() {
    let house = House::new();
    let store = house.member();
    let waiter = std::thread::spawn({
        let store = store.clone();
        move || store.get("never", Deadline::after(Duration::from_secs(30)))
    });
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    drop(house);
    let error = waiter.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(store.set("more", b"").is_err());
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn nobody_listening_is_unreachable_within_the_deadline() {
    let house = House::new();
    let address = house.server.address();
    let secret = house.secret.clone();
    drop(house);
    let started = Instant::now();
    let until = Deadline::after(Duration::from_millis(700));
    let error = TcpStore::connect(address, &secret, until).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let taken = started.elapsed();
    assert!((Duration::from_millis(600)..Duration::from_secs(3)).contains(&taken), "{taken:?}");
}

#[test]
fn a_listener_that_says_nothing_does_not_hold_a_client_beyond_its_deadline() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = Secret::generate().unwrap();
    let started = Instant::now();
    let until = Deadline::after(Duration::from_millis(700));
    let error = TcpStore::connect(silent.local_addr().unwrap(), &secret, until).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[test]
fn both_families_are_served() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("[::]:0".parse().unwrap(), &secret).unwrap();
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        let address = format!("{host}:{}", server.address().port());
        TcpStore::connect(address, &secret, soon()).unwrap().set("here", b"").unwrap();
    }
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let house = House::new();
    let error = Server::start(house.server.address(), &house.secret).unwrap_err();
    assert!(error.to_string().contains("is the port in use"), "{error}");
}

/// A server with one member who looks that it still serves.
struct House {
    secret: Secret,
    server: Server,
    member: TcpStore,
}

impl House {
    fn new() -> Self {
        collect_log();
        let secret = Secret::generate().unwrap();
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
        let member = TcpStore::connect(server.address(), &secret, soon()).unwrap();
        Self { secret, server, member }
    }

    fn member(&self) -> TcpStore {
        TcpStore::connect(self.server.address(), &self.secret, soon()).unwrap()
    }

    /// A bare connection.
    fn knock(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    /// A bare connection that has passed the handshake.
    fn enter(&self) -> (TcpStream, Session) {
        let mut raw = self.knock();
        let mut greeting = [0; GREETING];
        raw.read_exact(&mut greeting).unwrap();
        let (handshake, opening): (_, [u8; OPENING]) =
            ClientHandshake::open(&self.secret, &greeting, "test").unwrap();
        raw.write_all(&opening).unwrap();
        let mut answer = [0; ANSWER];
        raw.read_exact(&mut answer).unwrap();
        (raw, handshake.finish(&answer).unwrap())
    }

    fn still_serves(&self) {
        let started = Instant::now();
        self.member.set("alive", b"yes").unwrap();
        assert_eq!(self.member.get("alive", soon()).unwrap(), b"yes");
        let taken = started.elapsed();
        assert!(taken < Duration::from_secs(10), "a member had to wait {taken:?}");
    }

    /// There is one line about this peer, and it says why.
    fn log_names(&self, raw: &TcpStream, reason: &str) {
        let peer = raw.local_addr().unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let lines = log_lines(peer);
            if lines.len() == 1 && lines[0].contains(reason) {
                return;
            }
            assert!(Instant::now() < until, "want one line with {reason:?}: {lines:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Whether the server ends the connection within a few seconds.
fn is_closed(raw: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match raw.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(Arc::default)
}

fn collect_log() {
    struct Sink;
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            log().lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // Tests that share a process share the log; each looks for its own peers only.
    let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Sink).try_init();
}

fn log_lines(peer: SocketAddr) -> Vec<String> {
    let text = String::from_utf8(log().lock().unwrap().clone()).unwrap();
    let name = format!("peer={peer}");
    text.lines()
        .filter(|line| line.split_whitespace().any(|word| word == name))
        .map(str::to_owned)
        .collect()
}
