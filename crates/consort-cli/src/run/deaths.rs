//! Who died, in which order.
//!
//! When one rank fails the others often follow within a millisecond, because their connections to
//! it break. The report has to name the one that went first, and a thread that wakes up late must
//! not change that. So the order comes from the kernel: each process's descriptor becomes readable
//! at its end, and epoll hands out descriptors in the order in which they became readable.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::event::{Event, Exit};

/// A watch over child processes.
#[derive(Debug)]
pub(crate) struct Deaths {
    epoll: OwnedFd,
    watched: Vec<(Pid, OwnedFd)>,
}

impl Deaths {
    /// A watch over nobody yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, watched: Vec::new() })
    }

    /// Watches a child too. It must not have been reaped.
    pub(crate) fn add(&mut self, process: Pid) -> io::Result<()> {
        let descriptor = pidfd_open(process, PidfdFlags::empty())?;
        let place = EventData::new_u64(self.watched.len() as u64);
        epoll::add(&self.epoll, &descriptor, place, EventFlags::IN | EventFlags::ONESHOT)?;
        self.watched.push((process, descriptor));
        Ok(())
    }

    /// Sends an event for every child that ends, from a thread. The children are left to be
    /// reaped by their owner.
    pub(crate) fn report_to(self, events: Sender<Event>) -> io::Result<()> {
        thread::Builder::new().name("deaths".to_owned()).spawn(move || self.report(&events))?;
        Ok(())
    }

    fn report(self, events: &Sender<Event>) {
        let mut ended = Vec::with_capacity(self.watched.len());
        let mut left = self.watched.len();
        while left > 0 {
            match epoll::wait(&self.epoll, spare_capacity(&mut ended), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!(%error, "cannot watch the ranks"),
            }
            for event in ended.drain(..) {
                let place = event.data.u64() as usize;
                let (process, _) = self.watched[place];
                left -= 1;
                if let Some(exit) = exit_of(process)
                    && events.send(Event::Exited(exit)).is_err()
                {
                    return;
                }
            }
        }
    }
}

/// How an ended child ended; none if its owner has reaped it already.
fn exit_of(process: Pid) -> Option<Exit> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(process), look).ok().flatten()?.into();
    Some(Exit { process, status, at: Instant::now() })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::status::Status;
    use super::*;

    fn pid(child: &Child) -> Pid {
        Pid::from_child(child)
    }

    #[test]
    fn deaths_are_told_in_the_order_in_which_they_happened() {
        let mut sleepers: Vec<Child> =
            (0..8).map(|_| Command::new("sleep").arg("60").spawn().unwrap()).collect();
        let mut deaths = Deaths::new().unwrap();
        for sleeper in &sleepers {
            deaths.add(pid(sleeper)).unwrap();
        }
        // All of them die before anybody looks.
        let order = [5, 2, 7, 0, 1, 6, 3, 4];
        for place in order {
            sleepers[place].kill().unwrap();
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid(&sleepers[place])), ended).unwrap();
        }
        let (sender, receiver) = mpsc::channel();
        deaths.report_to(sender).unwrap();
        for place in order {
            match receiver.recv_timeout(Duration::from_secs(30)).unwrap() {
                Event::Exited(exit) => {
                    assert_eq!(exit.process, pid(&sleepers[place]));
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
