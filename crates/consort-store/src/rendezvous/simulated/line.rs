//! A node's way to the store, for code that waits as a future.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use consort_testkit::net::{Event, Net};

use crate::deadline::{Deadline, clock_now};
use crate::error::Result;
use crate::rendezvous::seat::Ask;
use crate::request::{Reply, Request};
use crate::secret::Secret;
use crate::store::{no_answer, settle};
use crate::tcp::simulated::client::Client;

/// A connection to the store. Clones are the same one.
#[derive(Clone)]
pub(super) struct Line(Rc<Inner>);

struct Inner {
    net: Net,
    host: usize,
    start: Instant,
    client: RefCell<Client>,
    answers: RefCell<BTreeMap<u64, Reply>>,
    patience: Duration,
}

impl Line {
    pub(super) fn new(
        net: &Net,
        host: usize,
        start: Instant,
        secret: &Secret,
        number: u64,
        patience: Duration,
    ) -> Self {
        let client = RefCell::new(Client::new(net, host, secret, number));
        let (net, answers) = (net.clone(), RefCell::default());
        Self(Rc::new(Inner { net, host, start, client, answers, patience }))
    }

    /// Something has happened on the host.
    pub(super) fn hear(&self, event: &Event, store: usize) {
        let Inner { net, host, client, answers, .. } = &*self.0;
        let mut client = client.borrow_mut();
        answers.borrow_mut().extend(client.hear(event));
        match event {
            Event::Alarm(DIAL) => client.dial(store),
            _ if !client.is_connected() => {
                let pause = Duration::from_millis(1 + net.roll(300));
                net.alarm(*host, net.clock(*host) + pause, DIAL);
            }
            _ => {}
        }
    }

    /// Goes on after so long.
    pub(super) async fn sleep(&self, length: Duration) {
        let until = Deadline::after(length);
        self.wake_at(until);
        poll_fn(|_| if until.has_passed() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    async fn answer(&self, call: u64, until: Deadline) -> Option<Reply> {
        self.wake_at(until);
        poll_fn(|_| match self.0.answers.borrow_mut().remove(&call) {
            None if !until.has_passed() => Poll::Pending,
            answer => Poll::Ready(answer),
        })
        .await
    }

    fn wake_at(&self, until: Deadline) {
        let Inner { net, host, start, .. } = &*self.0;
        if let Some(moment) = until.instant() {
            net.alarm(*host, moment - *start, WAKE);
        }
    }
}

impl Ask for Line {
    async fn ask(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        let (began, verb) = (clock_now(), request.verb());
        let wait = !until.has_passed();
        let call = self.0.client.borrow_mut().call(wait, request);
        let limit = if wait { until } else { Deadline::after(LOOK_GRACE) };
        let mut reply = self.answer(call, limit).await;
        if reply.is_none() && wait {
            self.0.client.borrow_mut().cancel(call);
            reply = self.answer(call, Deadline::after(CANCEL_GRACE)).await;
        }
        let waited = clock_now().duration_since(began);
        match reply {
            Some(reply) => settle(reply, verb, || waited),
            None => {
                self.0.client.borrow_mut().abandon(call);
                Err(no_answer(verb, waited))
            }
        }
    }

    fn soon(&self) -> Deadline {
        Deadline::after(self.0.patience)
    }
}

const WAKE: u64 = 1;
const DIAL: u64 = 2;
/// As a real client has it.
const LOOK_GRACE: Duration = Duration::from_secs(2);
const CANCEL_GRACE: Duration = Duration::from_millis(500);
