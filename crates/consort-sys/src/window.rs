//! Memory of the same size on every rank of a host, which each of them can reach: symmetric memory.
//!
//! Every rank gives a *window* of its arena, and with it a *control block*: a lock
//! for the window, and a *pad* of signals. `lock/README.md` and `window/README.md` have the protocols.
//!
//! # References into shared memory
//!
//! This is the one place where memory that another process has mapped is given out as `&[T]` and
//! `&mut [T]`. It is sound as long as nobody writes it meanwhile, which the lock is for: whoever
//! reaches a window through this module holds it, alone ([here](Alone) or [anywhere](OwnedAlone) in
//! the process) or as a [visitor](Visit). The one
//! other way to a window is a collective that was lent such a reference; then the ranks that work on
//! it are those whose owner said so, for as long as its call lasts. Whoever uses
//! [`Arena::view`](crate::arena::Arena::view) minds that. And because another process may have left
//! any bytes there, only types of which every bit pattern is a value are given out.

mod control;
mod guard;
mod leaving;
#[cfg(test)]
mod models;
mod signal;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytemuck::AnyBitPattern;

use self::control::Control;
pub use self::guard::{Alone, OwnedAlone, Visit};
use crate::arena::Arena;
use crate::dtype::Element;
use crate::lock;
use crate::view::Target;
use crate::wait::Patience;

/// An [`Element`] of which every bit pattern is a value: all but `bool`.
pub trait Plain: Element + AnyBitPattern {}

impl<T: Element + AnyBitPattern> Plain for T {}

/// What is the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many ranks there are.
    pub world: usize,
    /// How many independent lanes for signals.
    pub channels: usize,
    /// How many bytes each window has.
    pub bytes: usize,
}

impl Shape {
    /// The most ranks that can share a window.
    pub const MOST_RANKS: usize = lock::MOST_RANKS;

    /// How many bytes the control block needs, on a line of its own and zero at first. `None` if
    /// they cannot be counted.
    pub fn control_bytes(self) -> Option<usize> {
        Control::bytes(self)
    }
}

/// What one rank gives.
#[derive(Clone, Debug)]
pub struct Place {
    /// The rank's memory.
    pub arena: Arena,
    /// Where its control block begins, a multiple of 64.
    pub control: usize,
    /// Where its window begins, a multiple of 64.
    pub data: usize,
}

/// What somebody has written into a window's lock cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(String);

/// Everyone's windows, as one rank sees them.
#[derive(Debug)]
pub struct Windows {
    me: usize,
    shape: Shape,
    places: Vec<Place>,
    /// Learns from each wait. A copy waits, as several threads may.
    patience: Mutex<Patience>,
    /// Which thread of this process has each rank's window, or is copying: 0 for none, or if it may be
    /// given back by any.
    threads: Vec<AtomicUsize>,
}

impl Windows {
    /// For the rank `me` of those who gave these places. `None` if a place is not in its arena, or
    /// the shape is impossible.
    ///
    /// As [agreed](crate::arena::Agreement), a rank's window goes with its control block, on all ranks
    /// the same, and neither is used for anything else while one of them has this.
    pub fn new(me: usize, shape: Shape, places: Vec<Place>, patience: Patience) -> Option<Self> {
        let control = shape.control_bytes()?;
        let fits = |place: &Place| {
            let aligned = (place.control | place.data).is_multiple_of(LINE);
            aligned
                && place.arena.view(place.control, control).is_some()
                && place.arena.view(place.data, shape.bytes).is_some()
        };
        let sane = me < shape.world && shape.world == places.len();
        let possible = shape.world <= Shape::MOST_RANKS && places.iter().all(fits);
        let threads = places.iter().map(|_| AtomicUsize::new(0)).collect();
        let patience = Mutex::new(patience);
        (sane && possible).then_some(Self { me, shape, places, patience, threads })
    }

    /// What is the same on every rank.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What each rank gave.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Forgets all that was signalled to this rank, and who held its window.
    ///
    /// No rank uses these windows: that this one does not is proven by the borrow, for the others it
    /// is part of the [agreement](crate::arena::Agreement).
    pub fn clear(&mut self) {
        let bytes = self.shape.control_bytes().expect("it was checked");
        let Place { arena, control, .. } = &self.places[self.me];
        arena.view(*control, bytes).expect("it was checked").fill(0);
    }

    /// Waits until nobody else uses a rank's window, and keeps it for this rank alone. Who comes
    /// later to copy to or from it waits as well. `check` is asked before each sleep, and told who is
    /// using it, or that this cannot be known.
    ///
    /// # Errors
    /// What `check` says.
    ///
    /// # Panics
    /// When there is no such rank.
    #[inline]
    pub fn alone<E>(
        &self,
        rank: usize,
        check: impl FnMut(Result<&[usize], Damaged>) -> Result<(), E>,
    ) -> Result<Alone<'_>, E> {
        self.enter(rank, check)?;
        Ok(Alone::new(self, rank))
    }

    /// As [`alone`](Self::alone), for one who keeps the windows, and may have another thread give this
    /// one back.
    ///
    /// # Errors
    /// What `check` says.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn owned_alone<E>(
        self: &Arc<Self>,
        rank: usize,
        check: impl FnMut(Result<&[usize], Damaged>) -> Result<(), E>,
    ) -> Result<OwnedAlone, E> {
        self.enter(rank, check)?;
        Ok(OwnedAlone::new(self.clone(), rank))
    }

    /// Waits until nobody is alone in a rank's window or waits to be, and no other thread of this
    /// rank copies to and from it; then lets this one do so, beside other ranks. `check` is asked
    /// before each sleep, and told whom it has to wait for, or that this cannot be known.
    ///
    /// # Errors
    /// What `check` says.
    ///
    /// # Panics
    /// When there is no such rank.
    #[inline]
    pub fn visit<E>(
        &self,
        rank: usize,
        mut check: impl FnMut(Result<&[usize], Damaged>) -> Result<(), E>,
    ) -> Result<Visit<'_>, E> {
        let control = self.control(rank);
        self.wait(
            || lock::try_visit(&control, self.me),
            |limit| lock::doze_visit(&control, self.me, limit),
            || tell(lock::hosts(&control, self.shape.world), &mut check),
        )?;
        Ok(Visit::new(self, rank))
    }

    /// Whether this very thread has a rank's window, or copies to and from it: then there is no use
    /// in waiting for it.
    pub fn is_held_here(&self, rank: usize) -> bool {
        self.threads[rank].load(Ordering::Relaxed) == this_thread()
    }

    /// Sends a signal to a rank. Signals that are not waited for yet are counted.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    #[inline]
    pub fn signal(&self, to: usize, channel: usize) {
        let line = self.control(to).line(channel, self.me);
        signal::raise(line.signals(), line.signal_sleepers());
    }

    /// How many signals of a rank are here that were not waited for yet.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    pub fn signals(&self, from: usize, channel: usize) -> u32 {
        let line = self.control(self.me).line(channel, from);
        signal::waiting(line.signals(), line.taken())
    }

    /// Waits for a signal from a rank. `check` is asked before each sleep whether to go on.
    ///
    /// # Errors
    /// What `check` says. No signal is lost then.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    #[inline]
    pub fn await_signal<E>(
        &self,
        from: usize,
        channel: usize,
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let line = self.control(self.me).line(channel, from);
        let (signals, taken, sleepers) = (line.signals(), line.taken(), line.signal_sleepers());
        self.wait(
            || signal::take(signals, taken),
            |limit| signal::doze_for_more(signals, sleepers, taken, limit),
            check,
        )
    }

    /// Tells every rank that this one has come to a channel's barrier. Returns which of its
    /// barriers this is.
    ///
    /// # Panics
    /// When there is no such channel.
    #[inline]
    pub fn arrive(&self, channel: usize) -> u32 {
        let others = (0..self.shape.world).filter(|&rank| rank != self.me);
        let mine = self.control(self.me).line(channel, self.me);
        let round = signal::raise(mine.arrivals(), mine.arrival_sleepers());
        for rank in others {
            let line = self.control(rank).line(channel, self.me);
            signal::raise(line.arrivals(), line.arrival_sleepers());
        }
        round
    }

    /// Waits until a rank has come to one of a channel's barriers. `check` is asked before each
    /// sleep whether to go on.
    ///
    /// # Errors
    /// What `check` says.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    #[inline]
    pub fn await_arrival<E>(
        &self,
        from: usize,
        channel: usize,
        round: u32,
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let line = self.control(self.me).line(channel, from);
        let (arrivals, sleepers) = (line.arrivals(), line.arrival_sleepers());
        self.wait(
            || signal::reaches(arrivals, round),
            |limit| signal::doze_until(arrivals, sleepers, round, limit),
            check,
        )
    }

    /// Whether a rank has come to one of a channel's barriers.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    pub fn has_arrived(&self, from: usize, channel: usize, round: u32) -> bool {
        signal::reaches(self.control(self.me).line(channel, from).arrivals(), round)
    }

    /// Says that this rank uses nobody's window any more. That it has no hold on one is proven by the
    /// borrow.
    pub fn leave(&mut self) {
        (0..self.shape.world).for_each(|rank| leaving::leave(self.control(rank).left(self.me)));
    }

    /// Whether nobody uses this rank's window any more. It may be used for something else then.
    ///
    /// `has_ended` is asked of each rank that has not left, and says whether its process is certain
    /// to have ended: then it uses nothing any more.
    pub fn is_deserted(&self, has_ended: impl FnMut(usize) -> bool) -> bool {
        let control = self.control(self.me);
        leaving::is_deserted((0..self.shape.world).map(|rank| control.left(rank)), has_ended)
    }

    /// Takes a window's lock, for this rank alone.
    #[inline]
    fn enter<E>(
        &self,
        rank: usize,
        mut check: impl FnMut(Result<&[usize], Damaged>) -> Result<(), E>,
    ) -> Result<(), E> {
        let control = self.control(rank);
        if lock::try_alone(&control, self.me) {
            return Ok(());
        }
        let wish = lock::Wish::new(&control, self.me);
        self.wait(
            || wish.try_alone(),
            |limit| lock::doze_alone(&control, limit),
            || tell(lock::holders(&control, self.shape.world), &mut check),
        )
    }

    /// As [`Patience::wait`], with a last look: what was waited for may have come in the last
    /// moment, or with a rank's last breath.
    #[inline]
    fn wait<E>(
        &self,
        mut look: impl FnMut() -> bool,
        doze: impl FnMut(Duration),
        check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        if look() {
            return Ok(());
        }
        let learned = || self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let mut patience = *learned();
        let waited = patience.wait(&mut look, doze, check);
        *learned() = patience;
        match waited {
            Err(_) if look() => Ok(()),
            waited => waited,
        }
    }

    /// Notes that this thread has a rank's window, which no other thread has then.
    #[inline]
    fn note_thread(&self, rank: usize) {
        self.threads[rank].store(this_thread(), Ordering::Relaxed);
    }

    /// Before it is given back.
    #[inline]
    fn forget_thread(&self, rank: usize) {
        self.threads[rank].store(0, Ordering::Relaxed);
    }

    /// Whether this process has them, and not the one that it was forked from.
    #[inline]
    fn are_ours(&self) -> bool {
        self.places[self.me].arena.is_ours()
    }

    #[inline]
    fn control(&self, rank: usize) -> Control<'_> {
        let Place { arena, control, .. } = &self.places[rank];
        Control::new(arena, *control, self.shape)
    }

    #[inline]
    fn view(&self, rank: usize) -> Target<'_> {
        let Place { arena, data, .. } = &self.places[rank];
        arena.view(*data, self.shape.bytes).expect("it was checked")
    }
}

/// A number that no other thread has which lives now; never 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Asks whether to wait for these ranks.
fn tell<E>(
    ranks: Result<Vec<usize>, lock::Nonsense>,
    check: &mut impl FnMut(Result<&[usize], Damaged>) -> Result<(), E>,
) -> Result<(), E> {
    match ranks {
        Ok(ranks) => check(Ok(&ranks)),
        Err(nonsense) => check(Err(Damaged(nonsense.to_string()))),
    }
}

/// What a processor hands over at a time.
const LINE: usize = 64;
