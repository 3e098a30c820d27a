//! Who died, in which order.
//!
//! When one rank fails the others often follow within a millisecond, because their connections to
//! it break. The report has to name the one that went first, so the order must not depend on which
//! of our threads wakes up when. It comes from the kernel: epoll hands out descriptors in the order
//! in which something happened to them, however late we ask.
//!
//! Two things happen to a rank that dies. Its files are closed: its *lifeline*, a pipe that it
//! holds under its highest descriptor, before its connections, since Linux closes the files of a
//! dying process from the highest down. Then it becomes reapable. Others can react in between and
//! be reapable earlier, so an end is held back for a moment while somebody else's lifeline broke
//! before it.

mod order;

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::event::{Event, Exit};
use order::Order;

/// A watch over child processes.
#[derive(Debug)]
pub(crate) struct Deaths {
    epoll: OwnedFd,
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    process: Pid,
    /// Kept open for epoll.
    _descriptors: (OwnedFd, PipeReader),
}

impl Deaths {
    /// A watch over nobody yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, watched: Vec::new() })
    }

    /// Watches a child too, which holds the other end of `lifeline` and has not been reaped.
    pub(crate) fn add(&mut self, process: Pid, lifeline: PipeReader) -> io::Result<()> {
        let descriptor = pidfd_open(process, PidfdFlags::empty())?;
        let place = self.watched.len() as u64;
        let (ended, broken) = (EventData::new_u64(2 * place), EventData::new_u64(2 * place + 1));
        epoll::add(&self.epoll, &lifeline, broken, EventFlags::ONESHOT)?;
        epoll::add(&self.epoll, &descriptor, ended, EventFlags::IN | EventFlags::ONESHOT)?;
        self.watched.push(Watched { process, _descriptors: (descriptor, lifeline) });
        Ok(())
    }

    /// Sends an event for every child that ends, from a thread. The children are left to be
    /// reaped by their owner.
    pub(crate) fn report_to(self, events: Sender<Event>) -> io::Result<()> {
        thread::Builder::new().name("deaths".to_owned()).spawn(move || self.report(&events))?;
        Ok(())
    }

    fn report(self, events: &Sender<Event>) {
        let mut happened = Vec::with_capacity(2 * self.watched.len());
        let mut order = Order::default();
        let mut left = self.watched.len();
        while left > 0 {
            let limit = order.next_look().map(time_until);
            match epoll::wait(&self.epoll, spare_capacity(&mut happened), limit.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!(%error, "cannot watch the ranks"),
            }
            let now = Instant::now();
            for event in happened.drain(..) {
                let place = (event.data.u64() / 2) as usize;
                match event.data.u64() % 2 {
                    0 => order.ended(place, exit_of(self.watched[place].process, now)),
                    _ => order.lifeline_broke(place, now),
                }
            }
            for exit in order.ready(now) {
                left -= 1;
                if let Some(exit) = exit
                    && events.send(Event::Exited(exit)).is_err()
                {
                    return;
                }
            }
        }
    }
}

/// How a child ended; none if its owner has reaped it already.
fn exit_of(process: Pid, at: Instant) -> Option<Exit> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(process), look).ok().flatten()?.into();
    Some(Exit { process, status, at })
}

fn time_until(moment: Instant) -> Timespec {
    // Rounded up, so that the moment has come when the wait is over.
    let left = moment.saturating_duration_since(Instant::now()) + Duration::from_micros(1);
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::mpsc;

    use super::super::status::Status;
    use super::*;

    #[test]
    fn deaths_are_told_in_the_order_in_which_they_happened() {
        let mut deaths = Deaths::new().unwrap();
        let mut sleepers: Vec<Child> = (0..8)
            .map(|_| {
                let (lifeline, held) = io::pipe().unwrap();
                let sleeper = Command::new("sleep").arg("60").stdin(held).spawn().unwrap();
                deaths.add(Pid::from_child(&sleeper), lifeline).unwrap();
                sleeper
            })
            .collect();
        // All of them die before anybody looks.
        let order = [5, 2, 7, 0, 1, 6, 3, 4];
        for place in order {
            sleepers[place].kill().unwrap();
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(Pid::from_child(&sleepers[place])), ended).unwrap();
        }
        let (sender, receiver) = mpsc::channel();
        deaths.report_to(sender).unwrap();
        for place in order {
            match receiver.recv_timeout(Duration::from_secs(30)).unwrap() {
                Event::Exited(exit) => {
                    assert_eq!(exit.process, Pid::from_child(&sleepers[place]));
                    assert_eq!(exit.status, Status::Killed(9));
                }
                other => panic!("{other:?}"),
            }
        }
        for sleeper in &mut sleepers {
            sleeper.wait().unwrap();
        }
    }
}
