//! Sleep for one thread that waits for many things at once: steps of several boards, messages of
//! several groups, and whatever other threads of its process have for it.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::board;
use crate::ring::Bell;
use crate::word::Word;

/// Rouses a thread of this process.
///
/// Whoever has something for the thread puts it where the thread looks, and [rings](Self::ring).
/// The thread notes [how often](Self::rings) that happened, looks, and if there is nothing it
/// [dozes](Self::doze) on what it noted.
///
/// ```
/// use consort_sys::alert::Alert;
/// use std::time::Duration;
///
/// let alert = Alert::new();
/// let heard = alert.rings();
/// alert.ring();
/// alert.doze(heard, &[], || false, Duration::from_secs(600)); // Returns at once.
/// ```
#[derive(Debug, Default)]
pub struct Alert {
    rings: AtomicU32,
    sleepers: AtomicU32,
}

impl Alert {
    /// One that was never rung.
    pub const fn new() -> Self {
        Self { rings: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Wakes the thread, or keeps it from falling asleep.
    pub fn ring(&self) {
        ring(&self.rings, &self.sleepers);
    }

    /// How often it was rung, wrapping.
    pub fn rings(&self) -> u32 {
        self.rings.read()
    }

    /// Sleeps until it is rung more often than was `heard`, or something happens to what is
    /// watched, or the limit passes, or for no reason; but not if `look` finds what is waited for.
    pub fn doze(
        &self,
        heard: u32,
        watches: &[Watch],
        look: impl FnOnce() -> bool,
        limit: Duration,
    ) {
        let rung = Rung { alert: self, heard };
        let watched = watches.iter().map(Watch::sleepers);
        let words: Vec<_> = std::iter::once(&rung as &dyn Sleepers).chain(watched).collect();
        doze_on_any(&words, look, limit);
    }
}

/// One of the things to [sleep on](Alert::doze).
#[derive(Debug)]
pub enum Watch {
    /// A step that a rank has yet to post.
    Step(board::Watch),
    /// The bell of a rank's messages. It is rung only for those who sleep, so what happened before
    /// they did they have to look for.
    Bell(Bell),
}

impl Watch {
    fn sleepers(&self) -> &dyn Sleepers {
        match self {
            Self::Step(step) => step,
            Self::Bell(bell) => bell,
        }
    }
}

/// A word that can be slept on.
pub(crate) trait Sleepers {
    fn word(&self) -> &AtomicU32;
    /// Whoever sleeps on the word counts here first.
    fn sleepers(&self) -> &AtomicU32;
    /// Whether the value is what is waited for.
    fn is_there(&self, value: u32) -> bool;
}

struct Rung<'a> {
    alert: &'a Alert,
    heard: u32,
}

impl Sleepers for Rung<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.alert.rings
    }

    fn sleepers(&self) -> &AtomicU32 {
        &self.alert.sleepers
    }

    fn is_there(&self, value: u32) -> bool {
        value != self.heard
    }
}

/// The word counts, so unlike those that have one writer it is added to. What was put down before
/// is found under its own lock.
fn ring<W: Word>(rings: &W, sleepers: &W) {
    rings.add(1);
    // Either the sleeper's count is seen here, or the ring is seen there before it sleeps.
    W::fence();
    if sleepers.read() != 0 {
        rings.wake();
    }
}

/// The protocol of [`doze`](crate::word::doze), for several words.
fn doze_on_any(words: &[&dyn Sleepers], look: impl FnOnce() -> bool, limit: Duration) {
    words.iter().for_each(|it| it.sleepers().add(1));
    AtomicU32::fence();
    // Read before looking: what is done after the look changes them.
    let seen: Vec<u32> = words.iter().map(|it| it.word().read()).collect();
    if !words.iter().zip(&seen).any(|(it, &value)| it.is_there(value)) && !look() {
        sleep_on_any(words, &seen, limit);
    }
    words.iter().for_each(|it| it.sleepers().add(1_u32.wrapping_neg()));
}

/// Where the system cannot wait for several words, or not for so many, the sleep is on the first
/// and short.
fn sleep_on_any(words: &[&dyn Sleepers], seen: &[u32], limit: Duration) {
    if let [only] = words {
        return only.word().sleep(seen[0], limit);
    }
    let waits: Vec<futex::Wait> =
        words.iter().zip(seen).take(MOST).map(|(it, &value)| wait_for(it.word(), value)).collect();
    let limit = if words.len() > MOST { limit.min(NAP) } else { limit };
    let until = from_now(limit);
    let slept =
        futex::waitv(&waits, futex::WaitvFlags::empty(), until.as_ref(), ClockId::Monotonic);
    if slept == Err(rustix::io::Errno::NOSYS) || slept == Err(rustix::io::Errno::PERM) {
        words[0].word().sleep(seen[0], limit.min(NAP));
    }
}

fn wait_for(word: &AtomicU32, seen: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = u64::from(seen);
    wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
    wait.flags = futex::WaitFlags::SIZE_U32;
    wait
}

/// The system wants the moment here, not the time left.
fn from_now(limit: Duration) -> Option<Timespec> {
    let now = clock_gettime(ClockId::Monotonic);
    let limit = Timespec::try_from(limit).ok()?;
    now.checked_add(limit)
}

/// As many as the system takes.
const MOST: usize = 128;
/// How long to sleep when not everything that is waited for can end the sleep.
const NAP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use loom::sync::{Arc, Mutex};

    use super::*;
    use crate::arena::{AGREEMENT, Arena, Piece};
    use crate::board::{Board, Header};
    use crate::ring::Rings;
    use crate::view::Source;
    use crate::wait::Patience;
    use crate::word::doze;
    use crate::word::model::{ModelWord, model};

    #[test]
    fn what_is_put_down_is_found_and_no_ring_is_lost() {
        model(|| {
            let shared = Arc::new((ModelWord::new(), ModelWord::new(), Mutex::new(0)));
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let (rings, sleepers, inbox) = &*shared;
                        *inbox.lock().unwrap() += 1;
                        ring(rings, sleepers);
                    })
                })
                .collect();
            let (rings, sleepers, inbox) = &*shared;
            loop {
                let heard = rings.read();
                if *inbox.lock().unwrap() == 2 {
                    break;
                }
                doze(rings, sleepers, |rings| rings != heard, Duration::ZERO);
            }
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    /// The boards of two ranks, and what keeps their memory.
    fn boards() -> (Board, Board, Arena, Vec<Piece>) {
        let arena = Arena::create(AGREEMENT, 1 << 20).unwrap();
        let pieces: Vec<Piece> =
            (0..2).map(|_| arena.alloc(Board::BYTES, Board::BYTES).unwrap()).collect();
        let blocks: Vec<_> = pieces.iter().map(|piece| (arena.clone(), piece.offset())).collect();
        let board = |me| Board::new(me, &blocks, Patience::for_ranks(2, 1)).unwrap();
        (board(0), board(1), arena.clone(), pieces)
    }

    /// How long a doze on two boards' steps takes that something else ends after a while.
    fn doze_until(end: impl FnOnce(&Alert, &mut Board) + Send) -> Duration {
        let ((one, mut other, ..), (far, ..)) = (boards(), boards());
        let alert = Alert::new();
        let heard = alert.rings();
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                end(&alert, &mut other);
            });
            let steps = [far.watch(1, 1), one.watch(1, 1)].map(Watch::Step);
            alert.doze(heard, &steps, || false, LONG);
        });
        begun.elapsed()
    }

    #[test]
    fn a_ring_ends_a_sleep_on_steps() {
        assert!(doze_until(|alert, _| alert.ring()) < LONG / 2);
    }

    #[test]
    fn a_post_ends_a_sleep_on_several_steps() {
        let post = |_: &Alert, board: &mut Board| {
            board.post(1, Header { digest: 0, window: None }, Source::from(&[][..]));
        };
        assert!(doze_until(post) < LONG / 2);
    }

    #[test]
    fn an_alarm_ends_a_sleep_on_steps() {
        assert!(doze_until(|_, board| board.alarm().halt(b"fire")) < LONG / 2);
    }

    #[test]
    fn what_is_there_already_needs_no_sleep() {
        let (one, mut other, ..) = boards();
        other.post(1, Header { digest: 0, window: None }, Source::from(&[][..]));
        let alert = Alert::new();
        let begun = Instant::now();
        alert.doze(alert.rings(), &[Watch::Step(one.watch(1, 1))], || false, LONG);
        assert!(begun.elapsed() < LONG / 2);
    }

    #[test]
    fn a_bell_ends_a_sleep_on_several_things() {
        let arena = Arena::create(AGREEMENT, 1 << 20).unwrap();
        let block = arena.alloc(Rings::block_bytes(1), Board::BYTES).unwrap();
        let bell =
            || Rings::new(0, &[(arena.clone(), block.offset())], &[None]).unwrap().bells.remove(0);
        let ((one, ..), alert) = (boards(), Alert::new());
        let watches = [Watch::Step(one.watch(1, 1)), Watch::Bell(bell())];
        let begun = Instant::now();
        thread::scope(|scope| {
            let asleep = || {
                // A bell is rung only for those who count already.
                scope.spawn(|| bell().ring());
                false
            };
            alert.doze(alert.rings(), &watches, asleep, LONG);
        });
        alert.doze(alert.rings(), &watches, || true, LONG);
        assert!(begun.elapsed() < LONG / 2);
    }

    #[test]
    fn a_sleep_that_nothing_ends_has_a_limit() {
        let (one, ..) = boards();
        let alert = Alert::new();
        let begun = Instant::now();
        let soon = Duration::from_millis(5);
        alert.doze(alert.rings(), &[Watch::Step(one.watch(1, 1))], || false, soon);
        assert!(begun.elapsed() < LONG / 2);
    }

    const LONG: Duration = Duration::from_secs(30);
}
