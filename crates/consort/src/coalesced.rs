//! Several calls that are carried out as one.

mod ticket;

use std::sync::Arc;

use consort_store::Deadline;
use consort_sys::dtype::ReduceOp;
use consort_sys::view::Space;

use self::ticket::{Mark, Place};
pub use self::ticket::{Ticket, Tickets};
use crate::backend::Terms;
use crate::buffer::{Buffer, Input};
use crate::call::Call;
use crate::call::space;
use crate::commission::{Known, Settle};
use crate::device::Streams;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};
use crate::job::{Errand, Job, Lists, OwnedCall};
use crate::owned::{self, GivesBack, Whole, with_buffers};
use crate::work::{Completion, Failed, Outcome, Work};

/// # Coalescing
impl Group {
    /// Notes the calls that `record` makes, and has them carried out together, with nothing between
    /// them and one [`Work`] for all. Each gives a [`Ticket`]; those that `record` returns become
    /// buffers again when the work is done.
    ///
    /// ```
    /// use consort::ReduceOp;
    ///
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.coalesced(|calls| {
    ///     let gradients = calls.all_reduce(vec![0.5_f32; 64], ReduceOp::Avg)?;
    ///     let step = calls.broadcast(vec![7_u64], 0)?;
    ///     Ok((gradients, step))
    /// })?;
    /// let (gradients, step) = work.wait()?;
    /// # assert_eq!((gradients.len(), step[0]), (64, 7));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of `record`. None of the calls was made then, and the group goes on.
    #[track_caller]
    pub fn coalesced<R: Tickets>(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<R>,
    ) -> Result<Work<R::Buffers>> {
        self.backend()?;
        let mut recorder =
            Recorder { group: self, parts: Vec::new(), mark: Mark::default(), space: None };
        let tickets = record(&mut recorder)?;
        let backend = self.backend_for(recorder.space)?.clone();
        if let Some(Space::Device(_)) = recorder.space {
            for part in &mut recorder.parts {
                backend.check(&part.call(&mut Lists::default()))?;
            }
        }
        if !tickets.bear(&recorder.mark) {
            let what = "a ticket is from other calls than those that were noted here";
            return Err(Error::Argument(what.to_owned()));
        }
        let outcome = Arc::new(Outcome::default());
        let batch = Batch { parts: recorder.parts, tickets, outcome: outcome.clone() };
        let job = Job::new(Box::new(batch), NAME, Deadline::after(self.timeout()));
        let number = backend.submit(job);
        Ok(Work::new(outcome, backend, NAME, number, self.shared.job.home))
    }
}

/// What noting a call gives: a ticket, or the error of a call that makes no sense, with its
/// buffers.
pub type Recorded<B> = Result<Ticket<B>, Failed<B>>;

/// Notes calls; see [`Group::coalesced`].
///
/// The methods mean what those of [`Group`] mean that are called the same.
///
/// ```
/// use consort::ReduceOp;
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let work = group.coalesced(|calls| {
///     let loss = calls.reduce(vec![0.5_f32], ReduceOp::Max, 0)?;
///     let shard = calls.reduce_scatter(vec![1.0_f32; 8], vec![0.0; 8], ReduceOp::Sum)?;
///     let tokens = calls.all_to_all(vec![7_u16], vec![0])?;
///     let weights = calls.all_gather(vec![1_i8], vec![0])?;
///     calls.barrier();
///     Ok((loss, shard, tokens, weights))
/// })?;
/// let (loss, (_, shard), (_, tokens), (_, weights)) = work.wait()?;
/// assert_eq!((loss[0], shard.len(), tokens[0], weights[0]), (0.5, 8, 7, 1));
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<'a> {
    group: &'a Group,
    parts: Vec<Box<dyn Part>>,
    mark: Mark,
    /// Which memory they work on, once that is known.
    space: Option<Space>,
}

impl Recorder<'_> {
    /// As [`Group::barrier`]. It has no buffers, and so there is no ticket.
    pub fn barrier(&mut self) {
        let Ok(_) = self.note(owned::barrier()) else { unreachable!("it always makes sense") };
    }

    /// As [`Group::all_reduce`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.coalesced(|calls| Ok(calls.all_reduce(vec![2_i32], consort::ReduceOp::Sum)?))?;
    /// assert_eq!(work.wait()?, [2 * group.world() as i32]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn all_reduce<B: Buffer>(&mut self, buffer: B, op: ReduceOp) -> Recorded<B> {
        self.note(owned::all_reduce(buffer, op))
    }

    /// As [`Group::broadcast`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.coalesced(|calls| Ok(calls.broadcast(vec![0.5_f32; 4], 0)?))?;
    /// assert_eq!(work.wait()?, [0.5; 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn broadcast<B: Buffer>(&mut self, buffer: B, root: impl Into<Rank>) -> Recorded<B> {
        self.note(owned::broadcast(buffer, root.into()))
    }

    /// As [`Group::reduce`].
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn reduce<B: Buffer>(
        &mut self,
        buffer: B,
        op: ReduceOp,
        root: impl Into<Rank>,
    ) -> Recorded<B> {
        self.note(owned::reduce(buffer, op, root.into(), self.group.rank()))
    }

    /// As [`Group::all_gather`].
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn all_gather<I, B>(&mut self, input: I, output: B) -> Recorded<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.note(owned::all_gather(input, output))
    }

    /// As [`Group::reduce_scatter`].
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn reduce_scatter<I, B>(&mut self, input: I, output: B, op: ReduceOp) -> Recorded<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.note(owned::reduce_scatter(input, output, op))
    }

    /// As [`Group::all_to_all`].
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn all_to_all<I, B>(&mut self, input: I, output: B) -> Recorded<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.note(owned::all_to_all(input, output))
    }

    /// As [`Group::call_async`]: a call whose types are known only at run time.
    ///
    /// ```
    /// use consort::{Call, Lists, OwnedCall};
    ///
    /// struct Meet;
    ///
    /// impl OwnedCall for Meet {
    ///     fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
    ///         Call::Barrier
    ///     }
    /// }
    ///
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let Meet = group.coalesced(|calls| Ok(calls.call(Meet)?))?.wait()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense.
    pub fn call<C: OwnedCall>(&mut self, call: C) -> Recorded<C> {
        self.note(Whole(call))
    }

    /// Takes notice of the memory that the next call works on, if on any: one engine has them all.
    fn stay_in(&mut self, space: Option<Space>) -> Result<()> {
        self.space = space::same(self.space, space)?;
        Ok(())
    }

    fn note<C: GivesBack>(&mut self, mut call: C) -> Recorded<C::Buffers> {
        match owned::check(&mut call, self.group.rank(), self.group.world())
            .and_then(|(_, space)| self.stay_in(space))
        {
            Ok(()) => {
                let (ticket, place) = Ticket::new(&self.mark);
                self.parts.push(Box::new(Noted { call, place }));
                Ok(ticket)
            }
            Err(error) => Err(owned::refuse(call, error)),
        }
    }
}

/// One of the calls.
trait Part: Send + std::fmt::Debug {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a>;
    fn terms(&self, terms: Terms) -> Terms;
    fn streams(&mut self) -> Option<&mut Streams>;
    /// Puts the buffers where the ticket finds them.
    fn give_back(self: Box<Self>);
}

struct Noted<C: GivesBack> {
    call: C,
    place: Place<C::Buffers>,
}

impl<C: GivesBack> Part for Noted<C> {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.call.call(lists)
    }

    fn terms(&self, terms: Terms) -> Terms {
        self.call.terms(terms)
    }

    fn streams(&mut self) -> Option<&mut Streams> {
        self.call.streams()
    }

    fn give_back(self: Box<Self>) {
        self.place.put(self.call.give_back());
    }
}

impl<C: GivesBack> std::fmt::Debug for Noted<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a noted call")
    }
}

/// All of them, for one who waits.
struct Batch<R: Tickets> {
    parts: Vec<Box<dyn Part>>,
    tickets: R,
    outcome: Arc<Outcome<R::Buffers>>,
}

impl<R: Tickets> Errand for Batch<R> {
    fn count(&self) -> usize {
        self.parts.len()
    }

    fn call<'a>(&'a mut self, index: usize, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.parts[index].call(lists)
    }

    fn terms(&self, index: usize, terms: Terms) -> Terms {
        self.parts[index].terms(terms)
    }

    fn streams(&mut self, index: usize) -> Option<&mut Streams> {
        self.parts[index].streams()
    }
}

impl<R: Tickets> Settle for Batch<R> {
    type Gain = ();

    fn announce(&mut self, completion: &Completion) {
        self.parts.drain(..).for_each(Part::give_back);
        self.outcome.announce(completion);
    }

    fn settle(self: Box<Self>, result: Result<()>, completion: Completion) -> Arc<dyn Known> {
        let Self { tickets, outcome, .. } = *self;
        outcome.settle(with_buffers(result, tickets.redeem()), completion);
        outcome
    }
}

const NAME: &str = "coalesced";
