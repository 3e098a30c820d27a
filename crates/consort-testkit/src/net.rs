//! A network that exists only in a test: hosts with clocks of their own, connections between them, and
//! all that can go wrong with either, decided by a seed.
//!
//! Nothing here waits or runs by itself. A test asks for the [next](Net::next) thing that happens, lets
//! the code under test do something about it, and asks again; time passes in between, at no cost. Code
//! that decides without sockets and clocks can be played through thousands of unlucky histories in the
//! time of one with real processes, and each of them again and again.
//!
//! A connection is like one of TCP. Bytes come in their order, in pieces of any length, after any delay;
//! a sender gets no further ahead than there is room. When a connection [breaks](Net::break_off), a host
//! [ends](Net::end) or [vanishes](Net::vanish), what was on its way comes up to any byte, and nothing
//! after that. Connections do not keep an order among each other.
//!
//! ```
//! use std::io::{Read, Write};
//! use consort_testkit::net::{Event, Net};
//!
//! let net = Net::new(7, 2, false);
//! let mut caller = net.connect(0, 1);
//! caller.write_all(b"hello").unwrap();
//! let (mut listener, mut heard) = (None, String::new());
//! while heard != "hello" {
//!     match net.next().unwrap() {
//!         (1, Event::Opened(socket)) => listener = Some(socket),
//!         (1, Event::Readable(_)) => drop(listener.as_mut().unwrap().read_to_string(&mut heard)),
//!         other => unreachable!("{other:?}"),
//!     }
//! }
//! ```

mod dice;
mod fabric;
mod pipe;
mod seeds;

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::time::Duration;

pub use dice::Dice;
use fabric::Fabric;
pub use fabric::{Event, Faults};
pub use seeds::play;

/// Hosts and what is between them. Clones are the same network.
#[derive(Clone)]
pub struct Net(Rc<RefCell<Fabric>>);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub(crate) connection: usize,
    pub(crate) side: usize,
}

impl Net {
    /// So many hosts, whose clocks differ and run at different speeds. With `shows`, all that happens is
    /// written out.
    pub fn new(seed: u64, hosts: usize, shows: bool) -> Self {
        Self(Rc::new(RefCell::new(Fabric::new(seed, hosts, shows))))
    }

    /// The next thing that happens, and on which host. `None`: nothing will ever happen again.
    pub fn next(&self) -> Option<(usize, Event)> {
        let (host, happens) = self.fabric().next()?;
        Some((host, happens.with(|end| Socket { net: self.clone(), end })))
    }

    /// How long it is since the beginning, for one who sees all.
    pub fn now(&self) -> Duration {
        self.fabric().now()
    }

    /// What a host's clock shows.
    pub fn clock(&self, host: usize) -> Duration {
        self.fabric().clock(host)
    }

    /// Has [`Event::Alarm`] happen on a host when its clock shows this, unless it ends before.
    pub fn alarm(&self, host: usize, at: Duration, token: u64) {
        self.fabric().alarm(host, at, token);
    }

    /// Connects. Whether that works shows when it is read.
    pub fn connect(&self, from: usize, to: usize) -> Socket {
        let end = self.fabric().connect(from, to);
        Socket { net: self.clone(), end }
    }

    /// Whether nothing comes any more to this end but what is there already.
    pub fn is_read_closed(&self, end: End) -> bool {
        self.fabric().is_over(end)
    }

    /// The process on a host ends, and its system says so to all it was connected to.
    pub fn end(&self, host: usize) {
        self.fabric().end(host, false);
    }

    /// A host is gone without a word.
    pub fn vanish(&self, host: usize) {
        self.fabric().end(host, true);
    }

    /// A process begins on a host that had none.
    pub fn begin(&self, host: usize) {
        self.fabric().begin(host);
    }

    /// A host's process stands still for so long. Its system goes on.
    pub fn stop(&self, host: usize, length: Duration) {
        self.fabric().stop(host, length);
    }

    /// Nothing comes through between two hosts for so long. Connections bear that for a
    /// [while](Self::SILENCE).
    pub fn cut(&self, hosts: [usize; 2], length: Duration) {
        self.fabric().cut(hosts, length);
    }

    /// A connection ends on both sides, in the middle of what is on its way.
    pub fn break_off(&self, end: End) {
        self.fabric().break_off(end);
    }

    /// Any connection of a host breaks, if it has one.
    pub fn break_any(&self, host: usize) {
        self.fabric().break_any(host);
    }

    /// Any number below `limit`, from the dice that decide everything.
    pub fn roll(&self, limit: u64) -> u64 {
        self.fabric().dice.below(limit)
    }

    /// Any index of a list of so many.
    pub fn pick(&self, len: usize) -> usize {
        self.fabric().dice.index(len)
    }

    /// Yes, one time out of so many.
    pub fn once_in(&self, times: u64) -> bool {
        self.fabric().dice.once_in(times)
    }

    /// What has gone wrong so far.
    pub fn faults(&self) -> Faults {
        self.fabric().faults
    }

    /// Writes something out, if that is wanted.
    pub fn show(&self, what: impl FnOnce() -> String) {
        self.fabric().show(what);
    }

    /// After so long without a word from the other side, a connection counts as lost.
    pub const SILENCE: Duration = fabric::SILENCE;

    fn fabric(&self) -> RefMut<'_, Fabric> {
        self.0.borrow_mut()
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

/// A connection as one of its sides has it; it is closed when that is dropped. Reading and writing never
/// wait: [`Event::Readable`] and [`Event::Writable`] tell when it is worth trying again.
#[derive(Debug)]
pub struct Socket {
    net: Net,
    end: End,
}

impl Socket {
    /// Which end this is.
    pub fn end(&self) -> End {
        self.end
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.net.fabric().read(self.end, buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.net.fabric().write(self.end, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A test that fails may be in the middle of something else with the network.
        if let Ok(mut fabric) = self.net.0.try_borrow_mut() {
            fabric.close(self.end);
        }
    }
}

#[cfg(test)]
mod tests;
