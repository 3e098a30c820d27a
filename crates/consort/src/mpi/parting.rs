//! Communicators of groups that this process has left, in which others may still send it something.
//!
//! Others may keep such a group for long, or die in it, of which nobody is told who has left: what would tell is the
//! group's connections, and to keep those would keep others from seeing that this process has ended in order. So a
//! communicator is looked after ever more seldom: what it costs in the end is next to nothing.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What looks after such a communicator, and holds it: it receives what has come, and says whether nothing more will.
pub(crate) type Parting = Box<dyn FnMut() -> bool + Send>;

/// Keeps a communicator until that is so. A guest in an MPI that the program ends waits a little for it: nobody looks
/// after it later but who leaves another group.
pub(crate) fn part(mut parting: Parting, is_guest: bool) {
    lock().count += 1;
    let began = Instant::now();
    while !parting() {
        if !is_guest || began.elapsed() >= PATIENCE {
            lock().idle.push(Idle::new(parting, Instant::now()));
            return look_after(is_guest);
        }
        thread::sleep(NAP);
    }
    end(parting, drop);
    look_after(is_guest);
}

/// Lets go of those for which nothing more comes, as far as it is time to look after them; or of all, if this may be the last
/// look.
pub(super) fn look_after(is_last: bool) {
    let now = Instant::now();
    visit(|it| is_last || it.is_due(now), drop);
}

/// Has all that is on its way received, but waits no longer than that: all others have sent what they had to send, and MPI
/// is about to end.
pub(super) fn finish(mut gives_up: impl FnMut() -> bool) {
    let began = Instant::now();
    loop {
        // MPI frees them itself when it ends.
        visit(|_| true, mem::forget);
        if count() == 0 || began.elapsed() >= PATIENCE || gives_up() {
            return;
        }
        thread::sleep(NAP);
    }
}

/// How many there are.
pub(super) fn count() -> usize {
    lock().count
}

/// Has each of these receive what has come, and ends those for which nothing more comes. They are not in the list
/// meanwhile: MPI may take its time, or not come back, and nobody else waits for that.
fn visit(is_meant: impl Fn(&Idle) -> bool, how: fn(Parting)) {
    let mut all: Vec<Idle> = lock().idle.extract_if(.., |it| is_meant(it)).collect();
    for it in all.extract_if(.., |it| it.is_over(Instant::now())) {
        end(it.parting, how);
    }
    lock().idle.append(&mut all);
}

/// Ends one: it counts until that is done.
fn end(parting: Parting, how: fn(Parting)) {
    how(parting);
    lock().count -= 1;
}

fn lock() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Kept {
    /// Those that nobody is looking after at the moment.
    idle: Vec<Idle>,
    /// How many there are in all.
    count: usize,
}

/// One that is looked after now and then.
struct Idle {
    parting: Parting,
    /// When it is to be looked after again,
    due: Instant,
    /// and how long after the last time that is.
    pause: Duration,
}

impl Idle {
    fn new(parting: Parting, now: Instant) -> Self {
        Self { parting, due: now + SOON, pause: SOON }
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Looks after it, and waits longer for the next time.
    fn is_over(&mut self, now: Instant) -> bool {
        self.pause = (self.pause * 2).min(SELDOM);
        self.due = now + self.pause;
        (self.parting)()
    }
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { idle: Vec::new(), count: 0 });
/// How long what was sent before may take to come.
const PATIENCE: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(1);
/// When it is first looked after. Most others leave at about the same time.
const SOON: Duration = Duration::from_millis(10);
/// How often it is looked after that has been kept for long: one who sends to this rank and leaves waits twice as long for
/// it to look.
const SELDOM: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_long_is_looked_after_seldom_but_never_forgotten() {
        let (mut looks, began) = (0, Instant::now());
        let look = move || {
            looks += 1;
            looks == LOOKS
        };
        let mut kept = Idle::new(Box::new(look), began);
        let mut now = began;
        // As the thread does that MPI lives on.
        while !(kept.is_due(now) && kept.is_over(now)) {
            now += SOON;
        }
        // A second and a little until it is seldom, and then once a second.
        let lasted = now.duration_since(began).as_secs();
        assert!((LOOKS - 8..=LOOKS).contains(&lasted), "{lasted}");
    }

    const LOOKS: u64 = 100;
}
