//! One run: a server here, clients as processes, results through the store itself.

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use consort_store::{Deadline, Secret, Server, Store, TcpStore};
use serde::{Deserialize, Serialize};

/// What one run measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Which implementation.
    #[serde(rename = "impl")]
    pub(crate) name: String,
    /// How many clients.
    pub(crate) clients: usize,
    /// Set+get round trips per second, all clients together.
    pub(crate) pairs_per_second: f64,
    /// From the first client's start to the last one's end of the meeting.
    pub(crate) meet_ms: f64,
}

/// Starts a server and its clients, and gathers what they measured.
pub(crate) fn serve(clients: usize, seconds: f64) -> Result<Run, Box<dyn Error>> {
    let secret = Secret::generate()?;
    let dir = tempfile::tempdir()?;
    let secret_file = dir.path().join("secret");
    secret.write_new(&secret_file)?;
    let server = Server::start("127.0.0.1:0".parse()?, &secret)?;
    let store = TcpStore::connect(server.address(), &secret, limit())?;
    let mut crew = Vec::new();
    for index in 0..clients {
        crew.push(start(index, clients, seconds, &server, &secret_file)?);
    }
    wait_for(&store, "ready", clients)?;
    store.set("go", b"")?;
    wait_for(&store, "paired", clients)?;
    store.set("meet", b"")?;
    wait_for(&store, "met", clients)?;
    let run = gather(&store, clients)?;
    for mut child in crew {
        child.wait()?;
    }
    Ok(run)
}

/// One client: pairs of set and get for a while, then the meeting.
pub(crate) fn client(
    index: usize,
    clients: usize,
    seconds: f64,
    address: &str,
    secret_file: &Path,
) -> Result<(), Box<dyn Error>> {
    let secret = Secret::from_file(secret_file)?;
    let store = TcpStore::connect(address, &secret, limit())?;
    let key = format!("key/{index}");
    let value = [b'x'; 32];
    let meet: Vec<String> = (0..clients).map(|other| format!("meet/{other}")).collect();
    let meet: Vec<&str> = meet.iter().map(String::as_str).collect();

    store.set(&format!("ready/{index}"), b"")?;
    store.wait(&["go"], limit())?;
    let started = Instant::now();
    let length = Duration::from_secs_f64(seconds);
    let mut pairs = 0_u64;
    while started.elapsed() < length {
        store.set(&key, &value)?;
        if store.get(&key, limit())? != value {
            return Err("the value read is not the one written".into());
        }
        pairs += 1;
    }
    let rate = pairs as f64 / started.elapsed().as_secs_f64();
    store.set(&format!("rate/{index}"), rate.to_string().as_bytes())?;
    store.set(&format!("paired/{index}"), b"")?;

    store.wait(&["meet"], limit())?;
    let from = nanoseconds();
    store.set(meet[index], b"here")?;
    store.wait(&meet, limit())?;
    store.set(&format!("span/{index}"), format!("{from} {}", nanoseconds()).as_bytes())?;
    store.set(&format!("met/{index}"), b"")?;
    Ok(())
}

fn start(
    index: usize,
    clients: usize,
    seconds: f64,
    server: &Server,
    secret_file: &Path,
) -> Result<Child, Box<dyn Error>> {
    let child = Command::new(std::env::current_exe()?)
        .arg("client")
        .args(["--index", &index.to_string()])
        .args(["--clients", &clients.to_string()])
        .args(["--seconds", &seconds.to_string()])
        .args(["--address", &server.address().to_string()])
        .arg("--secret-file")
        .arg(secret_file)
        .spawn()?;
    Ok(child)
}

fn wait_for(store: &TcpStore, what: &str, clients: usize) -> Result<(), consort_store::Error> {
    let keys: Vec<String> = (0..clients).map(|index| format!("{what}/{index}")).collect();
    store.wait(&keys.iter().map(String::as_str).collect::<Vec<_>>(), limit())
}

fn gather(store: &TcpStore, clients: usize) -> Result<Run, Box<dyn Error>> {
    let mut pairs_per_second = 0.0;
    let (mut from, mut to) = (u64::MAX, 0);
    for index in 0..clients {
        let text = |key: String| -> Result<String, Box<dyn Error>> {
            Ok(String::from_utf8(store.get(&key, limit())?)?)
        };
        pairs_per_second += text(format!("rate/{index}"))?.parse::<f64>()?;
        let span = text(format!("span/{index}"))?;
        let (start, end) = span.split_once(' ').ok_or("a span is two numbers")?;
        from = from.min(start.parse()?);
        to = to.max(end.parse()?);
    }
    let meet_ms = (to - from) as f64 / 1e6;
    Ok(Run { name: "consort".to_owned(), clients, pairs_per_second, meet_ms })
}

/// The clock that all processes of a host share.
fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(120))
}
