//! A server that stands still, with more on its way to or from it than the connection holds. Each
//! call keeps to its own deadline meanwhile, and afterwards everything works as before.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic and look at the clock"
)]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Dial, Error, Secret, Server, Store, TcpStore};
use consort_testkit::{Job, Ranks};
use socket2::SockRef;

#[test]
fn a_thread_that_cannot_send_does_not_hold_up_anothers_deadline() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    house.job.stop(0);
    thread::scope(|scope| {
        let sender = scope.spawn(|| set_much(&store));
        thread::sleep(Duration::from_secs(2));
        let waited = gives_up(&store, Deadline::after(Duration::from_millis(100)));
        assert!(waited < Duration::from_secs(8), "{waited:?}");
        assert!(!sender.is_finished(), "the server stands still, and this is more than fits");
        house.job.cont(0);
        sender.join().unwrap().unwrap();
    });
    works(&store);
}

#[test]
fn a_thread_that_waits_for_an_answer_does_not_keep_another_from_sending() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| store.get("awaited", soon()));
        thread::sleep(Duration::from_millis(200));
        house.job.stop(0);
        let sender = scope.spawn(|| set_much(&store));
        thread::sleep(Duration::from_millis(500));
        house.job.cont(0);
        sender.join().unwrap().unwrap();
        assert!(!waiter.is_finished(), "nobody has set the key");
        store.set("awaited", b"here").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), b"here");
    });
    works(&store);
}

#[test]
fn a_call_that_gives_up_while_it_sends_leaves_a_connection_that_works() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    let hasty = store.clone().with_patience(Duration::from_millis(200));
    house.job.stop(0);
    let started = Instant::now();
    let error = set_much(&hasty).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    house.job.cont(0);
    works(&store);
    assert!(store.check(&much_keys()).unwrap(), "what was sent cannot be taken back");
}

#[test]
fn a_large_message_goes_out_after_a_large_answer_was_abandoned() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    set_much(&store).unwrap();
    house.abandon_much(&store);
    set_much(&store).unwrap();
    works(&store);
}

#[test]
fn a_connection_outlives_an_abandoned_answer_and_a_long_idleness() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    set_much(&store).unwrap();
    house.abandon_much(&store);
    // The server's system gives up on a client that makes no room for ten seconds.
    thread::sleep(Duration::from_secs(14));
    works(&store);
}

#[test]
fn a_server_that_may_be_silent_for_long_is_not_lost_before() {
    let mut house = House::new(&|| ());
    let dial = Dial::new(house.address, &house.secret).bearing(Duration::from_secs(60));
    let store = TcpStore::dial(dial, soon()).unwrap();
    house.job.stop(0);
    thread::scope(|scope| {
        let sender = scope.spawn(|| set_much(&store));
        // By then a connection that was not asked to bear it would be lost.
        thread::sleep(Duration::from_secs(14));
        house.job.cont(0);
        sender.join().unwrap().unwrap();
    });
    works(&store);
}

#[test]
fn a_look_at_a_silent_server_comes_back() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    house.job.stop(0);
    let waited = gives_up(&store, Deadline::now());
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    house.job.cont(0);
    works(&store);
    assert!(!store.check(&["never"]).unwrap());
}

#[test]
fn a_handle_that_goes_while_answers_are_to_come_closes_its_connection() {
    let mut house = House::new(&|| ());
    let (store, other) = (house.enter(), house.enter());
    house.job.stop(0);
    let local = store.local_address();
    assert!(is_established(local));
    gives_up(&store, Deadline::now());
    drop(store);
    let started = Instant::now();
    while is_established(local) {
        assert!(started.elapsed() < Duration::from_secs(10), "somebody keeps it open");
        thread::sleep(Duration::from_millis(50));
    }
    house.job.cont(0);
    works(&other);
}

/// A server in a process of its own.
struct House {
    job: Job<()>,
    address: SocketAddr,
    secret: Secret,
}

impl House {
    /// `here` is a closure of the test, for its name.
    fn new<F>(here: &F) -> Self {
        let mut job =
            Ranks::new(1).named_after(here).limit(Duration::from_secs(100)).start(|ctx| {
                let secret = Secret::generate().unwrap();
                secret.write_new(ctx.dir().join("secret")).unwrap();
                let server = Server::from_listener(narrow_listener(), &secret).unwrap();
                fs::write(ctx.dir().join("address"), server.address().to_string()).unwrap();
                ctx.reach("serving");
                let _: () = ctx.told("end");
            });
        job.await_point(0, "serving");
        let address = fs::read_to_string(job.dir().join("address")).unwrap().parse().unwrap();
        let secret = Secret::from_file(job.dir().join("secret")).unwrap();
        Self { job, address, secret }
    }

    fn enter(&self) -> TcpStore {
        TcpStore::connect(self.address, &self.secret, soon()).unwrap()
    }

    /// Gives up on an answer that is more than the connection holds, before it comes.
    fn abandon_much(&mut self, store: &TcpStore) {
        self.job.stop(0);
        let keys = much_keys();
        let error = store.multi_get(&keys, Deadline::after(Duration::from_millis(100)));
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
        self.job.cont(0);
    }
}

/// Its connections hold little.
fn narrow_listener() -> TcpListener {
    let listener = Server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let socket = SockRef::from(&listener);
    socket.set_recv_buffer_size(64 << 10).unwrap();
    socket.set_send_buffer_size(64 << 10).unwrap();
    listener
}

fn set_much(store: &TcpStore) -> Result<(), Error> {
    let value = vec![7; 5 << 19];
    let pairs: Vec<_> = much_keys().into_iter().map(|key| (key, value.as_slice())).collect();
    store.multi_set(&pairs)
}

fn much_keys() -> Vec<&'static str> {
    vec!["a", "b"]
}

/// Asks for what is not there, and says how long it took to hear nothing.
fn gives_up(store: &TcpStore, until: Deadline) -> Duration {
    let started = Instant::now();
    let error = store.get("never", until).unwrap_err();
    let Error::Timeout { missing, .. } = &error else { panic!("{error}") };
    assert_eq!(missing.count, 0, "a server that stands still cannot say what is missing");
    started.elapsed()
}

/// Whether the system knows of an open connection from this address of 127.0.0.1.
fn is_established(local: SocketAddr) -> bool {
    let end = format!(": 0100007F:{:04X} ", local.port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| line.contains(&end) && line.split_whitespace().nth(3) == Some("01"))
}

fn works(store: &TcpStore) {
    store.set("small", b"value").unwrap();
    assert_eq!(store.get("small", soon()).unwrap(), b"value");
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}
