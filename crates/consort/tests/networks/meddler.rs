//! Somebody between two hosts, who hears everything and may change it.
//!
//! Rank 0's host is made to believe that it has the address of rank 1's. Who listens there is the
//! meddler, and passes on what comes from a third host.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use consort_testkit::{Hosts, Job, Ranks, Skip};
use serde::de::DeserializeOwned;

/// Two ranks, each on its own host, and a host for the meddler.
pub(crate) fn two_ranks() -> Result<Ranks, Skip> {
    Ranks::new(2).limit(crate::meet::LIMIT).on_hosts(3)
}

/// What the meddler does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meddling {
    /// It listens.
    None,
    /// In the first [`PATTERN`] that rank 0 sends, it changes one bit.
    Pattern,
    /// It changes one bit this many bytes behind the beginning of what rank 0 sends.
    At(usize),
}

/// What the ranks find, and all that they said to each other.
pub(crate) fn meddle<T: DeserializeOwned>(
    mut job: Job<T>,
    meddling: Meddling,
) -> (Vec<T>, Vec<u8>) {
    // Rank 1 has to listen before there is something to pass on.
    job.await_point(1, "listening");
    let hosts = job.hosts().unwrap();
    let victim = hosts.host(1).address();
    let listener = pretend(hosts, victim);
    job.tell("go", &true);
    let near = accept(&listener);
    drop(listener);
    let far = job.hosts().unwrap().host(2).run(|| TcpStream::connect((victim, PORT))).unwrap();
    let forth = pass_on(near.try_clone().unwrap(), far.try_clone().unwrap(), meddling);
    let back = pass_on(far, near, Meddling::None);
    let found = job.expect_all();
    let mut heard = forth.join().unwrap();
    heard.extend(back.join().unwrap());
    (found, heard)
}

/// Has host 0 take itself for another.
fn pretend(hosts: &Hosts, victim: IpAddr) -> TcpListener {
    let host = hosts.host(0);
    let add = ["addr", "add", &format!("{victim}/32"), "dev", "lo"];
    assert!(host.command("ip").args(add).status().unwrap().success());
    let listener = host.run(|| TcpListener::bind((victim, PORT))).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn accept(listener: &TcpListener) -> TcpStream {
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "rank 0 opens no connection");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Passes on what comes until there is an end. Gives all of it, as it was sent.
fn pass_on(mut from: TcpStream, mut to: TcpStream, meddling: Meddling) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut heard, mut block) = (Vec::new(), vec![0; 64 << 10]);
        let mut is_done = false;
        while let Ok(read @ 1..) = from.read(&mut block) {
            let begin = heard.len();
            heard.extend_from_slice(&block[..read]);
            let place = match meddling {
                Meddling::Pattern => find(&block[..read], PATTERN),
                Meddling::At(place) => place.checked_sub(begin).filter(|&place| place < read),
                Meddling::None => None,
            };
            if let Some(place) = place.filter(|_| !is_done) {
                block[place] ^= 1;
                is_done = true;
            }
            if to.write_all(&block[..read]).is_err() {
                break;
            }
        }
        // Somebody who is gone has nothing to hear.
        let _ = to.shutdown(Shutdown::Write);
        heard
    })
}

/// Where in some bytes others begin.
pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// What is in the data of the tests and in nothing else.
pub(crate) const PATTERN: &[u8; 16] = b"numbers are here";
/// Where rank 1 listens for data.
pub(crate) const PORT: u16 = 47_000;
