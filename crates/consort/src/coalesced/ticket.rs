//! What stands for the buffers of calls that are carried out as one.

use std::sync::{Arc, Mutex, PoisonError};

pub(super) use self::sealed::Mark;

/// Stands for the buffers of one of several calls that are carried out as one.
///
/// ```
/// use consort::ReduceOp;
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// // Each ticket that is returned becomes what was noted with it.
/// let work = group.coalesced(|calls| Ok(calls.all_reduce(vec![3_i32], ReduceOp::Sum)?))?;
/// assert_eq!(work.wait()?, [3]);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "return it from the closure to get the buffers back"]
pub struct Ticket<B> {
    place: Place<B>,
    mark: Mark,
}

impl<B> Ticket<B> {
    /// A ticket, and where its buffers have to be put.
    pub(super) fn new(mark: &Mark) -> (Self, Place<B>) {
        let place = Place(Arc::default());
        (Self { place: Place(place.0.clone()), mark: mark.clone() }, place)
    }
}

/// Where a ticket finds its buffers.
#[derive(Debug)]
pub(super) struct Place<B>(Arc<Mutex<Option<B>>>);

impl<B> Place<B> {
    pub(super) fn put(self, buffers: B) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(buffers);
    }
}

#[expect(unnameable_types, reason = "so that only tickets of this crate are redeemed")]
mod sealed {
    /// Tells which recorder a ticket is from.
    #[derive(Clone, Debug, Default)]
    pub struct Mark(pub(super) std::sync::Arc<()>);
}

/// Tickets that become buffers again: one, or a tuple or vector of them.
///
/// ```
/// use consort::ReduceOp;
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let layers = vec![vec![0.5_f32; 16], vec![0.25; 4]];
/// let work = group.coalesced(|calls| {
///     let averages: Result<Vec<_>, _> =
///         layers.into_iter().map(|layer| calls.all_reduce(layer, ReduceOp::Avg)).collect();
///     Ok((averages?, calls.broadcast(vec![1_u64], 0)?))
/// })?;
/// let (layers, step) = work.wait()?;
/// assert_eq!((layers.len(), step[0]), (2, 1));
/// # Ok::<(), consort::Error>(())
/// ```
pub trait Tickets: Send + 'static {
    /// What they stand for.
    type Buffers: Send + 'static;

    #[doc(hidden)]
    fn bear(&self, mark: &Mark) -> bool;
    #[doc(hidden)]
    fn redeem(self) -> Self::Buffers;
}

impl<B: Send + 'static> Tickets for Ticket<B> {
    type Buffers = B;

    fn bear(&self, mark: &Mark) -> bool {
        Arc::ptr_eq(&self.mark.0, &mark.0)
    }

    fn redeem(self) -> B {
        let mut place = self.place.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.take().expect("its call has given the buffers back")
    }
}

impl<T: Tickets> Tickets for Vec<T> {
    type Buffers = Vec<T::Buffers>;

    fn bear(&self, mark: &Mark) -> bool {
        self.iter().all(|ticket| ticket.bear(mark))
    }

    fn redeem(self) -> Self::Buffers {
        self.into_iter().map(T::redeem).collect()
    }
}

impl Tickets for () {
    type Buffers = ();

    fn bear(&self, _mark: &Mark) -> bool {
        true
    }

    fn redeem(self) {}
}

macro_rules! tuples {
    ($(($($ticket:ident $index:tt),*))*) => {$(
        impl<$($ticket: Tickets),*> Tickets for ($($ticket,)*) {
            type Buffers = ($($ticket::Buffers,)*);

            fn bear(&self, mark: &Mark) -> bool {
                $(self.$index.bear(mark))&&*
            }

            fn redeem(self) -> Self::Buffers {
                ($(self.$index.redeem(),)*)
            }
        }
    )*};
}

tuples! {
    (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
