//! What the thread has to do for a group.

use std::sync::Arc;

use consort_sys::alert::Watch;
use consort_sys::wait::Patience;

use crate::engine::post::Courier;
use crate::engine::queue::{Carried, Queue};
use crate::engine::sleep::{Rest, Sleep};

/// What the thread can be asked to see to.
#[derive(Debug)]
pub(crate) enum Charge {
    /// A group's calls.
    Calls(Arc<Queue>),
    /// A group's messages.
    Messages(Arc<Courier>),
}

impl Charge {
    pub(super) fn patience(&self) -> Patience {
        match self {
            Self::Calls(queue) => queue.patience(),
            Self::Messages(courier) => courier.patience(),
        }
    }
}

/// What it sees to.
pub(super) enum Task {
    /// A queue, and its call on its way.
    Calls { queue: Arc<Queue>, carried: Option<Carried> },
    /// Messages, all at once.
    Messages(Arc<Courier>),
}

/// How far it came.
#[derive(Debug)]
pub(crate) enum Went {
    Nowhere,
    Further,
    /// There is nothing more to do.
    ToTheEnd,
}

impl Task {
    pub(super) fn new(charge: Charge) -> Self {
        match charge {
            Charge::Calls(queue) => Self::Calls { queue, carried: None },
            Charge::Messages(courier) => Self::Messages(courier),
        }
    }

    pub(super) fn go_on(&mut self) -> Went {
        match self {
            Self::Calls { queue, carried } => go_on_with_call(queue, carried),
            Self::Messages(courier) => courier.go_on(),
        }
    }

    /// Looks whether to go on waiting.
    pub(super) fn look_round(&self) {
        match self {
            Self::Calls { queue, carried: Some(carried) } => {
                carried.notes().look_round(carried.deadline().min(queue.patience_of_others()));
            }
            Self::Calls { carried: None, .. } => {}
            Self::Messages(courier) => courier.look_round(),
        }
    }

    /// The word that would end the wait, if there is one.
    pub(super) fn watch(&self) -> Option<Watch> {
        match self {
            Self::Calls { carried, .. } => carried.as_ref()?.notes().take_watch().map(Watch::Step),
            Self::Messages(courier) => match courier.rest() {
                Rest::Bell(bell) | Rest::Both { bell, .. } => Some(Watch::Bell(bell.clone())),
                Rest::Other(_) => None,
            },
        }
    }

    /// Where the end of the wait is noticed, if not in words.
    pub(super) fn place(&self) -> Option<&Arc<dyn Sleep>> {
        match self {
            Self::Calls { queue, .. } => queue.place(),
            Self::Messages(courier) => match courier.rest() {
                Rest::Bell(_) => None,
                Rest::Other(place) | Rest::Both { place, .. } => Some(place),
            },
        }
    }
}

fn go_on_with_call(queue: &Arc<Queue>, carried: &mut Option<Carried>) -> Went {
    let call = match &mut *carried {
        Some(call) => call,
        none => match queue.next() {
            Some((held, job)) => none.insert(Carried::new(held, job)),
            None => return Went::ToTheEnd,
        },
    };
    if call.go_on() {
        *carried = None;
        return Went::Further;
    }
    if call.notes().take_moved() { Went::Further } else { Went::Nowhere }
}
