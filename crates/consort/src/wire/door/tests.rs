//! Two ranks of a host behind one port, and who comes there.

use consort_store::auth::{ClientHandshake, GREETING};
use std::io::{Read, Write};

use super::*;
use crate::wire::caller::Dialling;
use crate::wire::knock::{KNOCK, knock};

/// Ranks 1 and 2, who share a listener, and their job's secret.
struct House {
    doors: [Door; 2],
    address: SocketAddr,
    secret: Secret,
}

impl House {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (first, second) = (Hatch::open().unwrap(), Hatch::open().unwrap());
        let (to_first, to_second) = (copy(first.chute()), copy(second.chute()));
        let beside = |mine, rank, chute| {
            let hatches = Hatches { mine, others: BTreeMap::from([(rank, chute)]) };
            Door::new(3 - rank, listener.try_clone().unwrap(), Some(hatches))
        };
        let doors = [beside(first, 2, to_second), beside(second, 1, to_first)];
        Self { doors, address, secret: Secret::generate().unwrap() }
    }

    /// Lets rank 1 look, and then rank 2. Says who is in, by the rank that it is with.
    fn look(&mut self) -> Vec<(u32, Caller)> {
        let mut found = Vec::new();
        for door in &mut self.doors {
            let here = door.take_in(&self.secret);
            found.extend(here.into_iter().map(|(caller, ..)| (door.me, caller)));
        }
        found
    }

    /// Dials a rank, and both look until somebody is in, or refused.
    fn call(&mut self, secret: &Secret, to: u32) -> Result<(u32, Caller), String> {
        let caller = Caller { from: 7, to, stream: 0 };
        let mut dialling = Some(Dialling::begin(self.address, caller).unwrap());
        let (mut found, mut is_through) = (None, false);
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            found = found.or(self.look().pop());
            match dialling.take().map(|it| it.go_on(secret)) {
                Some(Made::NotYet(it)) => dialling = Some(it),
                Some(Made::Closed) => panic!("somebody listens"),
                Some(Made::Refused(reason)) => return Err(reason),
                Some(Made::Here(..)) => is_through = true,
                None => {}
            }
            if let Some(found) = found.filter(|_| is_through) {
                return Ok(found);
            }
        }
        panic!("nothing came of it");
    }

    /// Says this at the port, and both look until it is hung up on.
    fn say(&mut self, words: &[u8]) {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        socket.write_all(words).unwrap();
        let start = Instant::now();
        loop {
            assert!(self.look().is_empty(), "nobody is let in");
            let is_gone = |kind| kind == io::ErrorKind::ConnectionReset;
            match socket.read(&mut [0; 256]) {
                Ok(0) => return,
                Err(error) if is_gone(error.kind()) => return,
                _ => assert!(start.elapsed() < LIMIT, "it is kept"),
            }
        }
    }
}

#[test]
fn a_caller_gets_to_the_rank_that_it_wants_whoever_lets_it_in() {
    let mut house = House::new();
    let secret = house.secret.clone();
    for to in [1, 2, 1, 2] {
        let (at, caller) = house.call(&secret, to).unwrap();
        assert_eq!((at, caller), (to, Caller { from: 7, to, stream: 0 }));
    }
}

#[test]
fn a_rank_that_does_not_look_holds_up_nobody() {
    let mut house = House::new();
    let mut socket = TcpStream::connect(house.address).unwrap();
    socket.write_all(&knock(&house.secret, 2)).unwrap();
    let start = Instant::now();
    // Rank 1 looks until it has passed the caller on, and never again.
    let [first, second] = &mut house.doors;
    while second.arriving.is_empty() {
        assert!(start.elapsed() < LIMIT, "it was not passed on");
        first.take_in(&house.secret);
        second.take_over(&house.secret);
    }
    assert_eq!(first.callers().count(), 0);
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(socket.read(&mut [0; 8]).unwrap() > 0, "rank 2 has greeted it");
}

#[test]
fn strangers_are_turned_away_and_callers_come_in_after_them() {
    let mut house = House::new();
    let (secret, other) = (house.secret.clone(), Secret::generate().unwrap());
    house.say(&[0xFF; 4096]);
    house.say(&knock(&other, 1));
    house.say(b"GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n");
    // It knows how to knock, and then speaks as no rank does.
    house.say(&[&knock(&secret, 2)[..], &[0xFF; 64]].concat());
    assert!(house.call(&other, 2).is_err());
    assert_eq!(house.call(&secret, 2).unwrap().0, 2);
}

#[test]
fn who_knocks_as_a_rank_does_and_knows_another_secret_is_refused() {
    let (mut house, other) = (House::new(), Secret::generate().unwrap());
    let mut socket = TcpStream::connect(house.address).unwrap();
    socket.write_all(&knock(&house.secret, 2)).unwrap();
    let start = Instant::now();
    while house.doors[1].arriving.is_empty() {
        assert!(start.elapsed() < LIMIT, "it was not passed on");
        assert!(house.look().is_empty());
    }
    let mut greeting = [0; GREETING];
    socket.read_exact(&mut greeting).unwrap();
    let (_, opening) = ClientHandshake::open(&other, &greeting, "wire 7 2 0").unwrap();
    socket.write_all(&opening).unwrap();
    while house.doors[1].callers().count() > 0 {
        assert!(start.elapsed() < LIMIT, "it is kept");
        assert!(house.look().is_empty(), "nobody is let in");
    }
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert!(matches!(answer[..], [why] if ClientHandshake::look(why).is_err()), "{answer:?}");
}

#[test]
fn a_caller_for_a_rank_of_another_host_is_turned_away() {
    let mut house = House::new();
    let secret = house.secret.clone();
    assert!(house.call(&secret, 5).is_err());
    assert_eq!(house.call(&secret, 1).unwrap().0, 1);
}

#[test]
fn a_caller_for_a_rank_that_has_ended_is_turned_away() {
    let House { doors: [first, mut second], address, secret } = House::new();
    drop(first);
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&knock(&secret, 1)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let start = Instant::now();
    while socket.read(&mut [0; 8]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        assert!(start.elapsed() < LIMIT, "it is kept");
        second.take_in(&secret);
    }
}

#[test]
fn when_the_first_has_ended_the_others_still_let_callers_in() {
    let House { doors: [first, mut second], address, secret } = House::new();
    drop(first);
    let caller = Caller { from: 7, to: 2, stream: 0 };
    let mut dialling = Dialling::begin(address, caller).unwrap();
    let start = Instant::now();
    let found = loop {
        assert!(start.elapsed() < LIMIT, "it is not let in");
        if let Some((found, ..)) = second.take_in(&secret).pop() {
            break found;
        }
        match dialling.go_on(&secret) {
            Made::NotYet(it) => dialling = it,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(found, caller);
}

#[test]
fn who_says_half_a_knock_does_not_stay() {
    let mut house = House::new();
    let half = knock(&house.secret, 1);
    house.say(&half[..KNOCK / 2]);
}

#[test]
fn a_crowd_is_bounded() {
    let mut house = House::new();
    let mut crowd = Vec::new();
    for _ in 0..MOST + 10 {
        crowd.push(TcpStream::connect(house.address).unwrap());
        // Before the kernel has no more room for them.
        house.look();
    }
    let [first, second] = &house.doors;
    assert_eq!((first.callers().count(), second.callers().count()), (MOST, 10));
    assert!(first.ways_in().is_none() && second.ways_in().is_some());
    drop(crowd);
    house.look();
    assert!(house.doors[0].ways_in().is_some());
}

fn copy(chute: &Chute) -> Chute {
    use std::os::fd::AsFd;
    Chute::from(chute.as_fd().try_clone_to_owned().unwrap())
}

/// Nothing takes that long.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_door_at_which_nobody_can_be_let_in_is_shut_for_a_while() {
    // It does not listen, so that the system refuses to accept anybody.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let mut door = Door::new(1, socket.into(), None);
    let secret = Secret::generate().unwrap();
    assert!(door.ways_in().is_some());
    assert!(door.take_in(&secret).is_empty());
    assert!(door.ways_in().is_none(), "whoever waits does not wait for it");
    door.shut_until = Some(Instant::now());
    assert!(door.ways_in().is_some(), "it opens again");
}
