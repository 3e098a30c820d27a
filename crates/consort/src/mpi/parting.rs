//! Communicators of groups that this process has left, in which others may still send it something.

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
    look_after();
    let began = Instant::now();
    while !parting() {
        if !is_guest || began.elapsed() >= PATIENCE {
            return lock().idle.push(parting);
        }
        thread::sleep(NAP);
    }
    end(parting, drop);
}

/// Lets go of those for which nothing more comes.
pub(super) fn look_after() {
    visit(drop);
}

/// Has all that is on its way received, but waits no longer than that: all others have sent what they had to send, and MPI
/// is about to end.
pub(super) fn finish(mut gives_up: impl FnMut() -> bool) {
    let began = Instant::now();
    loop {
        // MPI frees them itself when it ends.
        visit(mem::forget);
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

/// Has each receive what has come, and ends those for which nothing more comes. They are not in the list meanwhile: MPI
/// may take its time, or not come back, and nobody else waits for that.
fn visit(how: fn(Parting)) {
    let mut all = mem::take(&mut lock().idle);
    for parting in all.extract_if(.., |parting| parting()) {
        end(parting, how);
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
    idle: Vec<Parting>,
    /// How many there are in all.
    count: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { idle: Vec::new(), count: 0 });
/// How long what was sent before may take to come.
const PATIENCE: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(1);
