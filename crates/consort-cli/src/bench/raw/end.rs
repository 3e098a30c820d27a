//! `consort __bench_raw`: one of the two processes that show what sockets can do.
//!
//! Its standard input has one line that says where the other one listens, or nothing of it if it is
//! to listen itself; then a task a line, which it answers with what it has timed. Between tasks it
//! sleeps in the kernel like every peer.

use std::error::Error;
use std::io::{self, BufRead};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::streams::Streams;
use crate::bench::asker::{end_with, say};
use crate::bench::timing::{self, Company};

/// Who it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// Where the other one listens, if it does.
    pub(crate) port: Option<u16>,
    /// The process that asks; this one ends with it.
    pub(crate) asker: u32,
}

/// What it says when it listens, and again when it is connected.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Where.
    pub(crate) port: u16,
}

/// What to time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// How many streams to use.
    pub(crate) streams: usize,
    /// How many bytes each of the two sends in a call.
    pub(crate) bytes: usize,
    /// For how long.
    pub(crate) seconds: f64,
}

/// Measures until there are no more tasks.
pub(crate) fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let mut lines = io::stdin().lock().lines();
    let seat: Seat = serde_json::from_str(&lines.next().ok_or("nobody says who this is")??)?;
    end_with(seat.asker)?;
    let streams = connect(seat.port)?;
    for line in lines {
        let task: Task = serde_json::from_str(&line?)?;
        let mut exchange = Exchange::new(&streams, &task);
        exchange.check()?;
        say(&timing::take(&mut exchange, task.seconds)?)?;
    }
    Ok(())
}

/// Both ends come to the same streams in the same order: one connects after the other.
fn connect(port: Option<u16>) -> Result<Streams, Box<dyn Error>> {
    let here = Ipv4Addr::LOCALHOST;
    let (port, streams) = match port {
        Some(port) => {
            let dial = |_| TcpStream::connect((here, port));
            (port, (0..MOST_STREAMS).map(dial).collect::<io::Result<Vec<_>>>()?)
        }
        None => {
            let listener = TcpListener::bind((here, 0))?;
            let port = listener.local_addr()?.port();
            say(&Open { port })?;
            let accept = |_| listener.accept().map(|(stream, _)| stream);
            (port, (0..MOST_STREAMS).map(accept).collect::<io::Result<Vec<_>>>()?)
        }
    };
    let streams = Streams::new(streams)?;
    say(&Open { port })?;
    Ok(streams)
}

/// One end's side of a task.
struct Exchange<'a> {
    streams: &'a Streams,
    count: usize,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn new(streams: &'a Streams, task: &Task) -> Self {
        // Whoever waits for a barrier waits for something, too.
        let bytes = task.bytes.max(1);
        let output = (0..bytes).map(|at| (at % PERIOD) as u8).collect();
        Self { streams, count: task.streams, output, input: vec![0; bytes] }
    }

    /// Every byte comes to its place.
    fn check(&mut self) -> Result<(), Box<dyn Error>> {
        self.run(1)?;
        // Both ends send the same.
        if self.input != self.output {
            return Err("what came over the sockets is not what was sent".into());
        }
        Ok(())
    }
}

impl Company for Exchange<'_> {
    type Error = io::Error;

    fn run(&mut self, calls: u64) -> io::Result<()> {
        let Self { streams, count, output, input } = self;
        (0..calls).try_for_each(|_| streams.exchange(*count, output, input))
    }

    fn barrier(&mut self) -> io::Result<()> {
        self.streams.exchange(1, &[0], &mut [0])
    }

    fn largest(&mut self, mine: u64) -> io::Result<u64> {
        let mut other = [0; 8];
        self.streams.exchange(1, &mine.to_ne_bytes(), &mut other)?;
        Ok(mine.max(u64::from_ne_bytes(other)))
    }

    fn now(&self) -> u64 {
        timing::now()
    }
}

/// How many streams there are. Tasks use some of them.
pub(crate) const MOST_STREAMS: usize = 4;

/// No divisor of anything that streams or buffers are made of, so that misplaced bytes show.
const PERIOD: usize = 251;
