//! Whether another process of this machine is alive.
//!
//! A process number alone does not say: when its process has ended, another may be given it. A
//! [`Life`] is bound to one process. It is a descriptor of that process where the kernel has them,
//! which also tells the moment of its end; otherwise the number with the time the process began.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::root::Root;

/// One process, of which can be told whether it is alive.
///
/// ```
/// use consort_sys::life::{Life, Sign};
///
/// let me = Life::of(std::process::id());
/// assert_ne!(me.sign(), Sign::Ended);
/// ```
#[derive(Debug)]
pub struct Life {
    trace: Trace,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It runs, or is stopped.
    Alive,
    /// It has ended, even if nobody has taken note yet.
    Ended,
    /// It cannot be seen from here.
    Unknown,
}

#[derive(Debug)]
enum Trace {
    Descriptor(OwnedFd),
    Began { process: u32, at: u64 },
    Ended,
    Unseen,
}

impl Life {
    /// The process that has this number now. Zero, by which the kernel means a process that cannot
    /// be seen from here, makes a life that stays unknown.
    pub fn of(process: u32) -> Self {
        let number = i32::try_from(process).ok().and_then(Pid::from_raw);
        let trace = match number.map(|number| pidfd_open(number, PidfdFlags::empty())) {
            None => Trace::Unseen,
            Some(Ok(descriptor)) => Trace::Descriptor(descriptor),
            Some(Err(Errno::SRCH)) => Trace::Ended,
            Some(Err(_)) => Trace::began(process, Path::new("/")),
        };
        Self { trace }
    }

    /// Whether it is alive at this moment. Takes a system call, and never waits.
    pub fn sign(&self) -> Sign {
        match &self.trace {
            Trace::Descriptor(descriptor) => look_at(descriptor.as_fd()),
            Trace::Began { process, at } => look_up(*process, *at, Path::new("/")),
            Trace::Ended => Sign::Ended,
            Trace::Unseen => Sign::Unknown,
        }
    }

    /// A descriptor that becomes readable when the process ends, where the kernel has them.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.trace {
            Trace::Descriptor(descriptor) => Some(descriptor.as_fd()),
            Trace::Began { .. } | Trace::Ended | Trace::Unseen => None,
        }
    }
}

impl Trace {
    fn began(process: u32, root: &Path) -> Self {
        match Stat::read(process, root) {
            Some(stat) if stat.has_ended() => Self::Ended,
            Some(stat) => Self::Began { process, at: stat.began },
            None => Self::Unseen,
        }
    }
}

fn look_at(descriptor: BorrowedFd<'_>) -> Sign {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        return match poll(&mut polled, Some(&at_once)) {
            Ok(0) => Sign::Alive,
            Ok(_) if polled[0].revents().contains(PollFlags::NVAL) => Sign::Unknown,
            Ok(_) => Sign::Ended,
            Err(Errno::INTR) => continue,
            Err(_) => Sign::Unknown,
        };
    }
}

/// Where it could be seen once, a process that is not listed has ended.
fn look_up(process: u32, began: u64, root: &Path) -> Sign {
    match Stat::read(process, root) {
        Some(stat) if stat.began == began && !stat.has_ended() => Sign::Alive,
        Some(_) => Sign::Ended,
        None if Root(root).text("proc/self/stat").is_some() => Sign::Ended,
        None => Sign::Unknown,
    }
}

/// What the kernel writes of a process.
struct Stat {
    state: char,
    began: u64,
}

impl Stat {
    fn read(process: u32, root: &Path) -> Option<Self> {
        Self::parse(&Root(root).text(format!("proc/{process}/stat"))?)
    }

    /// `7 (a name) S 1 …`: the name may hold spaces and brackets.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let began = fields.nth(FIELDS_BETWEEN)?.parse().ok()?;
        Some(Self { state, began })
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The state is the third field, the time of beginning the twenty-second.
const FIELDS_BETWEEN: usize = 18;

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::root::fake;

    /// A process that lives until it is killed.
    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn await_end(look: impl Fn() -> Sign) {
        let start = Instant::now();
        while look() != Sign::Ended {
            assert!(start.elapsed() < Duration::from_secs(20), "its end is not seen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_killed_process_is_known_to_have_ended_before_it_is_reaped() {
        let mut child = sleeper();
        let life = Life::of(child.id());
        assert_eq!(life.sign(), Sign::Alive);
        child.kill().unwrap();
        await_end(|| life.sign());
        child.wait().unwrap();
        assert_eq!(life.sign(), Sign::Ended);
        assert_eq!(Life::of(child.id()).sign(), Sign::Ended);
    }

    #[test]
    fn a_process_is_followed_by_its_beginning_where_there_are_no_descriptors() {
        let mut child = sleeper();
        let life = Life { trace: Trace::began(child.id(), Path::new("/")) };
        assert!(matches!(life.trace, Trace::Began { .. }) && life.descriptor().is_none());
        assert_eq!(life.sign(), Sign::Alive);
        child.kill().unwrap();
        await_end(|| life.sign());
        assert!(matches!(Trace::began(child.id(), Path::new("/")), Trace::Ended));
        child.wait().unwrap();
        assert_eq!(life.sign(), Sign::Ended);
    }

    #[test]
    fn a_stopped_process_is_alive() {
        let mut child = sleeper();
        let by_number = Life { trace: Trace::began(child.id(), Path::new("/")) };
        let life = Life::of(child.id());
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let signs = (life.sign(), by_number.sign());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(signs, (Sign::Alive, Sign::Alive));
    }

    #[test]
    fn a_number_that_was_given_away_again_is_another_process() {
        let stat = |state: &str, began: u64| {
            format!("7 (a) b (c) {state} 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 {began} 99\n")
        };
        let machine =
            |text: &str| fake::machine(&[("proc/7/stat", text), ("proc/self/stat", "1 (x) R")]);
        let sign = |text: &str| look_up(7, 5000, machine(text).path());
        assert_eq!(sign(&stat("S", 5000)), Sign::Alive);
        assert_eq!(sign(&stat("S", 5001)), Sign::Ended);
        assert_eq!(sign(&stat("Z", 5000)), Sign::Ended);
        assert_eq!(look_up(8, 5000, machine("").path()), Sign::Ended);
        assert_eq!(look_up(8, 5000, fake::machine(&[]).path()), Sign::Unknown);
    }

    #[test]
    fn a_process_of_another_namespace_stays_unknown() {
        for number in [0, u32::MAX] {
            let life = Life::of(number);
            assert_eq!(life.sign(), Sign::Unknown);
            assert!(life.descriptor().is_none());
        }
        assert!(matches!(Trace::began(7, fake::machine(&[]).path()), Trace::Unseen));
    }
}
