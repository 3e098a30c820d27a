//! The one thread of this process that carries out asynchronous calls and messages.
//!
//! It is started by the first of them and ends with the last group that made one. It goes on with
//! one call of each group in turn, and with the messages of each, as far as each can: a group whose
//! ranks have not come does not keep the others waiting, so ranks may begin calls of different
//! groups in different orders, and neither do a group's calls and its messages wait for each other.
//! When all of them wait it does as [`Patience`] says. With nothing to do it sleeps.

mod bed;
mod task;
#[cfg(test)]
pub(super) mod tests;

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::alert::Alert;
use consort_sys::origin::PerProcess;
use consort_sys::wait::Patience;

use self::bed::Bed;
use self::task::Task;
pub(super) use self::task::{Charge, Went};
use super::sleep::Sleep;
use crate::group::Job as Membership;

/// Makes sure that the thread is there, for one more group's calls or messages.
///
/// # Errors
/// When the system gives no more threads.
pub(super) fn serve() -> io::Result<()> {
    let mut office = office();
    if office.served == 0 {
        let shift = office.shift;
        thread::Builder::new().name("consort".to_owned()).spawn(move || work(shift))?;
    }
    office.served += 1;
    Ok(())
}

/// For one less. After the last one the thread ends.
pub(super) fn stop_serving() {
    let mut office = office();
    office.served -= 1;
    if office.served == 0 {
        office.shift += 1;
        // Whatever the thread has not seen to yet, others have. It would be held until the next shift.
        let left_over = std::mem::take(&mut office.inbox);
        tell(office);
        drop(left_over);
    }
}

/// Lets go of what a group was part of, which may take a while: by the thread, when it has nothing
/// else to do.
pub(super) fn let_go(membership: Arc<Membership>) {
    let mut office = office();
    office.let_go.push(membership);
    tell(office);
}

/// Has the thread see to something.
pub(super) fn attend(charge: Charge) {
    let mut office = office();
    office.inbox.push(charge);
    tell(office);
}

#[derive(Debug, Default)]
struct Office {
    /// What it has yet to see to.
    inbox: Vec<Charge>,
    /// For how many groups' calls and messages the thread is there.
    served: usize,
    /// A thread of an earlier shift has to go.
    shift: u64,
    let_go: Vec<Arc<Membership>>,
    /// How often somebody has put something here for the thread.
    told: u64,
    /// Where the thread sleeps, if not on words.
    beds: Vec<Arc<dyn Sleep>>,
}

fn office() -> MutexGuard<'static, Office> {
    OFFICE.here().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the thread look at what was put into the office. [`Bed`] says why it does.
fn tell(mut office: MutexGuard<'_, Office>) {
    office.told += 1;
    let beds = office.beds.clone();
    drop(office);
    ALERT.ring();
    beds.iter().for_each(|place| place.ring());
}

/// What the thread knows of what it was told.
#[derive(Clone, Copy, Debug)]
struct Heard {
    rings: u32,
    told: u64,
}

fn work(shift: u64) {
    let mut tasks = Tasks::new();
    loop {
        let rings = ALERT.rings();
        let mut office = office();
        let heard = Heard { rings, told: office.told };
        let is_over = office.shift != shift;
        if !is_over {
            tasks.add(std::mem::take(&mut office.inbox));
        }
        let let_go = tasks.is_empty().then(|| std::mem::take(&mut office.let_go));
        drop(office);
        match let_go {
            None => tasks.go_on(heard),
            Some(_) if is_over => return,
            Some(let_go) if let_go.is_empty() => ALERT.doze(rings, &[], || false, IDLE),
            Some(let_go) => drop(let_go),
        }
    }
}

/// All that there is to do.
struct Tasks {
    tasks: Vec<Task>,
    patience: Patience,
    looked_round: Instant,
}

impl Tasks {
    fn new() -> Self {
        let patience = Patience::for_ranks(1, 1);
        Self { tasks: Vec::new(), patience, looked_round: Instant::now() }
    }

    fn add(&mut self, charges: Vec<Charge>) {
        if let (true, Some(first)) = (self.tasks.is_empty(), charges.first()) {
            self.patience = first.patience();
        }
        self.tasks.extend(charges.into_iter().map(Task::new));
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Goes on until one of them came further or something new was heard of.
    fn go_on(&mut self, heard: Heard) {
        if self.looked_round.elapsed() > LOOK_ROUND {
            self.look_round();
        }
        let mut patience = self.patience;
        let all = RefCell::new(&mut *self);
        let look = || ALERT.rings() != heard.rings || all.borrow_mut().any_moves();
        let gone_on: Result<(), Infallible> = patience.wait(
            look,
            |limit| {
                let bed = Bed::for_tasks(&all.borrow().tasks);
                bed.doze(heard, look, limit);
            },
            || {
                all.borrow_mut().look_round();
                Ok(())
            },
        );
        let Ok(()) = gone_on;
        self.patience = patience;
    }

    /// Has every call look whether to go on waiting.
    fn look_round(&mut self) {
        self.looked_round = Instant::now();
        self.tasks.iter().for_each(Task::look_round);
    }

    fn any_moves(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.tasks.len() {
            match self.tasks[at].go_on() {
                Went::Nowhere => at += 1,
                Went::Further => {
                    moved = true;
                    at += 1;
                }
                Went::ToTheEnd => {
                    moved = true;
                    self.tasks.swap_remove(at);
                }
            }
        }
        moved
    }
}

/// A forked child has no thread for what is in its parent's, which that thread may hold for ever in its eyes.
static OFFICE: PerProcess<Mutex<Office>> = PerProcess::new(Mutex::default);
static ALERT: Alert = Alert::new();

/// Who never has to sleep looks round as often as one who does.
pub(super) const LOOK_ROUND: Duration = Duration::from_millis(20);
/// It is rung for when there is something to do.
const IDLE: Duration = Duration::from_secs(3600);
