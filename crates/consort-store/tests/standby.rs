//! A store with a standby, each in a process or on a host of its own: what is lost, what goes on.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic and look at the clock"
)]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Dial, Error, Role, Secret, Server, Store, TcpStore};
use consort_testkit::{Hosts, Job, Ranks, skip};

#[test]
fn a_killed_store_takes_nothing_with_it() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    store.set("before", b"kept").unwrap();
    thread::scope(|scope| {
        let adders: Vec<_> = (0..4).map(|_| scope.spawn(|| add_until(&store, "enough"))).collect();
        let watcher = scope.spawn(|| store.get("late", soon()));
        thread::sleep(Duration::from_millis(300));
        house.job.kill(FIRST);
        thread::sleep(Duration::from_millis(500));
        store.set("late", b"word").unwrap();
        store.set("enough", b"").unwrap();
        assert_eq!(watcher.join().unwrap().unwrap(), b"word");
        let sums: Vec<Vec<i64>> = adders.into_iter().map(|it| it.join().unwrap()).collect();
        every_sum_once(&sums, store.add("count", 0).unwrap());
    });
    assert_eq!(store.get("before", soon()).unwrap(), b"kept");
    assert_eq!(store.place(), house.address("second").to_string());
    let newcomer = TcpStore::connect(house.address("second"), &house.secret, soon()).unwrap();
    assert_eq!(newcomer.get("late", soon()).unwrap(), b"word");
}

#[test]
fn an_element_of_a_queue_is_taken_once_across_a_takeover() {
    let mut house = House::new(&|| ());
    let (store, other) = (house.enter(), house.enter());
    for element in 0..200_u8 {
        store.push("queue", &[element]).unwrap();
    }
    let taken: Vec<u8> = thread::scope(|scope| {
        let takers = [&store, &other, &store, &other].map(|store| {
            scope.spawn(|| {
                let take = || store.pop("queue", Deadline::after(Duration::from_secs(8))).ok();
                std::iter::from_fn(take).map(|element| element[0]).collect::<Vec<u8>>()
            })
        });
        thread::sleep(Duration::from_millis(10));
        house.job.kill(FIRST);
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    assert_eq!(taken.len(), 200);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 200);
}

#[test]
fn without_its_standby_a_store_goes_on_and_takes_another() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    assert_eq!(store.add("count", 1).unwrap(), 1);
    house.job.kill(SECOND);
    assert_eq!(store.add("count", 1).unwrap(), 2);
    assert_eq!(store.place(), house.address("first").to_string());
    let third = follow(house.address("first"), &house.secret, "127.0.0.1".parse().unwrap());
    wait_for(&third, &Role::Follows { ready: true });
    assert_eq!(store.add("count", 1).unwrap(), 3);
    house.job.kill(FIRST);
    assert_eq!(store.add("count", 1).unwrap(), 4);
    assert_eq!(third.role(), Role::Serves { standby: None });
}

#[test]
fn if_both_are_gone_the_error_says_so_soon() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    store.set("a", b"").unwrap();
    house.job.kill(SECOND);
    house.job.kill(FIRST);
    let started = Instant::now();
    let error = store.set("a", b"").unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(error.to_string().contains("lost the store at"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn if_both_go_at_once_the_error_names_them_and_comes_at_once_the_next_time() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    house.job.stop(SECOND);
    house.job.kill(FIRST);
    house.job.kill(SECOND);
    let error = store.set("a", b"").unwrap_err().to_string();
    let both = format!("{} and its standby at {}", house.address("first"), house.address("second"));
    assert!(error.contains(&both), "{error}");
    let again = Instant::now();
    store.get("a", soon()).unwrap_err();
    assert!(again.elapsed() < Duration::from_secs(1), "{:?}", again.elapsed());
}

#[test]
fn a_store_that_stood_still_for_too_long_does_not_serve_any_more() {
    let mut house = House::new(&|| ());
    let (store, other) = (house.enter(), house.enter());
    assert_eq!(store.add("count", 1).unwrap(), 1);
    house.job.stop(FIRST);
    thread::scope(|scope| {
        let adder = scope.spawn(|| store.add("count", 1));
        thread::sleep(Duration::from_secs(5));
        house.job.cont(FIRST);
        assert_eq!(adder.join().unwrap().unwrap(), 2);
    });
    assert_eq!(other.add("count", 1).unwrap(), 3);
    assert_eq!(store.add("count", 1).unwrap(), 4);
    for store in [store, other] {
        assert_eq!(store.place(), house.address("second").to_string());
    }
}

#[test]
fn a_store_that_stood_still_briefly_goes_on() {
    let mut house = House::new(&|| ());
    let store = house.enter();
    for stopped in [FIRST, SECOND] {
        house.job.stop(stopped);
        thread::scope(|scope| {
            let adder = scope.spawn(|| store.add("count", 1));
            thread::sleep(Duration::from_secs(1));
            assert!(!adder.is_finished(), "nothing is answered that only one of them knows");
            house.job.cont(stopped);
            adder.join().unwrap().unwrap();
        });
    }
    assert_eq!(store.add("count", 0).unwrap(), 2);
    assert_eq!(store.place(), house.address("first").to_string());
}

#[test]
fn a_store_that_is_cut_off_is_replaced_and_answers_nobody() {
    let Some(town) = Town::new() else { return };
    let (first, second) = (town.start(), town.start_second());
    let [beside, afar] = [0, 2].map(|host| town.enter(host));
    assert_eq!(town.add_one(0, &beside).unwrap(), 1);
    assert_eq!(town.add_one(2, &afar).unwrap(), 2);
    town.hosts.cut(0);
    let hasty = beside.clone().with_patience(Duration::from_secs(2));
    let unheard = town.add_one(0, &hasty);
    assert!(unheard.is_err(), "{unheard:?}");
    assert_eq!(town.add_one(2, &afar).unwrap(), 3);
    wait_for(&second, &Role::Serves { standby: None });
    let read = town.hosts.host(0).run(|| hasty.get("count", Deadline::now()));
    assert!(read.is_err(), "it must not even be read there: {read:?}");
    town.hosts.mend(0);
    assert_eq!(town.add_one(0, &beside).unwrap(), 4);
    assert!(matches!(first.role(), Role::Aside { .. }), "{:?}", first.role());
}

#[test]
fn a_store_whose_standby_is_cut_off_answers_nobody_rather_than_two() {
    let Some(town) = Town::new() else { return };
    let (first, second) = (town.start(), town.start_second());
    let store = town.enter(2);
    assert_eq!(town.add_one(2, &store).unwrap(), 1);
    town.hosts.cut(1);
    let started = Instant::now();
    let error = town.add_one(2, &store).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(error.to_string().contains("out of reach and may have taken over"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(second.role(), Role::Serves { standby: None });
    drop(first);
}

/// A store and its standby, each in a process of its own.
struct House {
    job: Job<()>,
    secret: Secret,
}

impl House {
    /// `here` is a closure of the test, for its name.
    fn new<F>(here: &F) -> Self {
        let secret = Secret::generate().unwrap();
        let job = Ranks::new(2).named_after(here).limit(Duration::from_secs(100));
        let mut job = job.start(|ctx| {
            let secret = Secret::from_file(ctx.told::<String>("secret")).unwrap();
            let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
            let server = match ctx.rank() {
                FIRST => Server::start(here, &secret).unwrap(),
                _ => {
                    let first: SocketAddr = ctx.told("first");
                    follow(first, &secret, here.ip())
                }
            };
            let name = NAMES[ctx.rank() as usize];
            fs::write(ctx.dir().join(name), server.address().to_string()).unwrap();
            if ctx.rank() == SECOND {
                wait_for(&server, &Role::Follows { ready: true });
            }
            ctx.reach("ready");
            let _: () = ctx.told("end");
        });
        let path = job.dir().join("secret");
        secret.write_new(&path).unwrap();
        job.tell("secret", &path);
        job.await_point(FIRST, "ready");
        job.tell("first", &read_address(&job.dir(), "first"));
        job.await_point(SECOND, "ready");
        Self { job, secret }
    }

    fn enter(&self) -> TcpStore {
        TcpStore::connect(self.address("first"), &self.secret, soon()).unwrap()
    }

    fn address(&self, name: &str) -> SocketAddr {
        read_address(&self.job.dir(), name)
    }
}

/// Three hosts: the first store's, the standby's, and one that only has clients.
struct Town {
    hosts: Hosts,
    secret: Secret,
}

impl Town {
    fn new() -> Option<Self> {
        match Hosts::new(3) {
            Ok(hosts) => Some(Self { hosts, secret: Secret::generate().unwrap() }),
            Err(reason) => {
                skip(reason);
                None
            }
        }
    }

    fn start(&self) -> Server {
        self.hosts.host(0).run(|| Server::start(self.first(), &self.secret).unwrap())
    }

    fn start_second(&self) -> Server {
        let host = self.hosts.host(1);
        let second = host.run(|| follow(self.first(), &self.secret, host.address()));
        wait_for(&second, &Role::Follows { ready: true });
        second
    }

    fn enter(&self, host: usize) -> TcpStore {
        let connect = || TcpStore::connect(self.first(), &self.secret, soon()).unwrap();
        self.hosts.host(host).run(connect)
    }

    /// Adds one as a process on this host would: if it connects again, it does so from there.
    fn add_one(&self, host: usize, store: &TcpStore) -> Result<i64, Error> {
        self.hosts.host(host).run(|| store.add("count", 1))
    }

    fn first(&self) -> SocketAddr {
        SocketAddr::new(self.hosts.host(0).address(), 29_400)
    }
}

fn follow(first: SocketAddr, secret: &Secret, here: IpAddr) -> Server {
    let listener = Server::listen(SocketAddr::new(here, 0)).unwrap();
    let dial = Dial::new(first, secret).named("standby");
    Server::follow(Duration::ZERO, listener, &dial, soon()).unwrap()
}

fn wait_for(server: &Server, role: &Role) {
    let started = Instant::now();
    while server.role() != *role {
        assert!(started.elapsed() < Duration::from_secs(30), "it is {:?}", server.role());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Adds one again and again until the key is there; what it was told each time.
fn add_until(store: &TcpStore, key: &str) -> Vec<i64> {
    let mut sums = Vec::new();
    while !store.check(&[key]).unwrap() {
        sums.push(store.add("count", 1).unwrap());
    }
    sums
}

fn every_sum_once(sums: &[Vec<i64>], last: i64) {
    let all: BTreeSet<i64> = sums.iter().flatten().copied().collect();
    assert!(sums.iter().all(|sums| sums.is_sorted()));
    assert!(all.iter().copied().eq(1..=last), "{} sums up to {last}", all.len());
    assert!(last > 20, "hardly anything happened");
}

fn read_address(dir: &Path, name: &str) -> SocketAddr {
    fs::read_to_string(dir.join(name)).unwrap().parse().unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

const FIRST: u32 = 0;
const SECOND: u32 = 1;
const NAMES: [&str; 2] = ["first", "second"];
