//! Output on our own terminal: every line behind its rank.
//!
//! One thread reads the pipes of all ranks and writes whole lines, so lines never mix. It ends
//! when it is told that the ranks have ended, not when their pipes do: a process that a rank has
//! left behind may hold a pipe open for ever.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::lines::Lines;
use super::prefix::PrefixStyle;
use super::screen::{Screen, Side};
use super::tail::Tail;
use crate::colour;
use crate::run::event::{Event, Inbox};
use crate::run::signals::asks_to_end;

/// The output of the ranks of this host.
#[derive(Debug)]
pub(crate) struct Terminal {
    styles: [PrefixStyle; 2],
    streams: Vec<Stream>,
    tails: Tails,
    ranks_run: Option<PipeWriter>,
}

/// The last lines of each local rank; the thread adds to them.
type Tails = Arc<Mutex<Vec<Tail>>>;

/// One of the two streams of one rank.
#[derive(Debug)]
struct Stream {
    pipe: PipeReader,
    side: Side,
    prefix: Vec<u8>,
    local_rank: usize,
    lines: Lines,
}

impl Terminal {
    /// For a job of `world` ranks.
    pub(crate) fn new(world: u32) -> Self {
        let coloured = [colour::shows_on(&io::stdout()), colour::shows_on(&io::stderr())];
        let styles = coloured.map(|coloured| PrefixStyle::new(world, coloured));
        Self { styles, streams: Vec::new(), tails: Tails::default(), ranks_run: None }
    }

    /// Makes room for the next local rank; gives what it writes its two streams to.
    pub(crate) fn open(&mut self, rank: u32) -> io::Result<[PipeWriter; 2]> {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.push(Tail::default());
        let mut open = |side: Side| {
            let (pipe, writer) = io::pipe()?;
            rustix::io::ioctl_fionbio(&pipe, true)?;
            let prefix = self.styles[side as usize].prefix(rank);
            let local_rank = tails.len() - 1;
            self.streams.push(Stream { pipe, side, prefix, local_rank, lines: Lines::default() });
            io::Result::Ok(writer)
        };
        Ok([open(Side::Out)?, open(Side::Err)?])
    }

    /// Begins to pass lines on.
    pub(crate) fn start(&mut self, events: Sender<Event>) -> io::Result<()> {
        let (ranks_run, writer) = io::pipe()?;
        self.ranks_run = Some(writer);
        let pump = Pump {
            streams: std::mem::take(&mut self.streams),
            tails: self.tails.clone(),
            ranks_run,
            screen: Screen::default(),
            events,
        };
        thread::Builder::new().name("output".to_owned()).spawn(move || pump.run())?;
        Ok(())
    }

    /// The ranks have ended: waits until all they wrote is passed on. Whoever should read our
    /// output can hold that up, so the wait ends with `patience`, if there is any limit to it,
    /// and with a signal.
    ///
    /// # Errors
    /// When some of it could not be written.
    pub(crate) fn finish(
        &mut self,
        patience: Option<Duration>,
        inbox: &mut Inbox,
    ) -> io::Result<()> {
        if self.ranks_run.take().is_none() {
            return Ok(());
        }
        let mut result = Ok(());
        // A signal may have come while the ranks were being ended.
        let patience = patience.or_else(|| inbox.was_asked_to_end().then_some(ASKED_TO_END));
        let until = patience.map(|patience| Instant::now() + patience);
        let mut others = Vec::new();
        loop {
            let event = match until {
                Some(moment) => inbox.next_until(moment),
                None => Some(inbox.next()),
            };
            match event {
                Some(Event::OutputDone) | None => break,
                Some(Event::OutputClosed(error)) => result = Err(error),
                Some(other) => {
                    let enough = matches!(other, Event::Signal(signal) if asks_to_end(signal));
                    others.push(other);
                    if enough {
                        break;
                    }
                }
            }
        }
        inbox.put_back(others);
        result
    }

    /// A rank's last lines, of both streams, as they came.
    pub(crate) fn tail(&self, local_rank: u32) -> Vec<String> {
        let tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.get(local_rank as usize).map(Tail::lines).unwrap_or_default()
    }
}

/// The thread that passes lines on.
struct Pump {
    streams: Vec<Stream>,
    tails: Tails,
    /// Ends when the ranks have.
    ranks_run: PipeReader,
    screen: Screen,
    events: Sender<Event>,
}

impl Pump {
    fn run(mut self) {
        while self.wait() {
            self.pass_on();
        }
        let patience = Instant::now() + DRAIN_PATIENCE;
        while self.pass_on() && Instant::now() < patience {}
        for mut stream in std::mem::take(&mut self.streams) {
            stream.finish(&self.tails, &mut self.screen);
        }
        self.flush();
    }

    /// Waits for output; false once the ranks have ended.
    fn wait(&self) -> bool {
        let pipes = self.streams.iter().map(|stream| &stream.pipe).chain([&self.ranks_run]);
        let mut pipes: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        // An interruption reads as "something may be there", which is harmless.
        let _ = poll(&mut pipes, None);
        pipes.last().is_some_and(|ranks_run| ranks_run.revents().is_empty())
    }

    /// Reads once from every stream and writes the lines; whether there was anything.
    fn pass_on(&mut self) -> bool {
        let mut any = false;
        let mut bytes = [0; READ_BYTES];
        let (tails, screen) = (&self.tails, &mut self.screen);
        self.streams.retain_mut(|stream| match stream.pipe.read(&mut bytes) {
            Ok(count) if count > 0 => {
                any = true;
                stream.push(&bytes[..count], tails, screen);
                true
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                true
            }
            _ => {
                stream.finish(tails, screen);
                false
            }
        });
        self.flush();
        any
    }

    fn flush(&mut self) {
        if let Err(error) = self.screen.flush() {
            let _ = self.events.send(Event::OutputClosed(error));
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let _ = self.events.send(Event::OutputDone);
    }
}

impl Stream {
    fn push(&mut self, bytes: &[u8], tails: &Tails, screen: &mut Screen) {
        let mut tails = tails.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = &mut tails[self.local_rank];
        self.lines.push(bytes, Instant::now(), &mut |line| {
            screen.line(self.side, &self.prefix, line);
            tail.push(line);
        });
    }

    fn finish(&mut self, tails: &Tails, screen: &mut Screen) {
        let mut tails = tails.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = &mut tails[self.local_rank];
        self.lines.finish(&mut |line| {
            screen.line(self.side, &self.prefix, line);
            tail.push(line);
        });
    }
}

/// As much as a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// How long to read on after the ranks have ended, from processes that they left behind.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How long a reader may take once the launcher was asked to end.
const ASKED_TO_END: Duration = Duration::from_secs(2);
