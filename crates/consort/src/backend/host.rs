//! The processors of the ranks themselves, whatever is between them.

use std::sync::Arc;
use std::time::Duration;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::origin::Own;
use consort_sys::reduce::Kernel;
use consort_sys::wait::Patience;

use super::{Backend, Capabilities, Terms};
use crate::call::{Call, Operation};
use crate::delivery::Delivery;
use crate::engine::{Courier, Exchange, Post, Queue, Road};
use crate::error::{Error, Result};
use crate::group::{Job as Membership, Rank};
use crate::job::Job;
use crate::p2p::{Incoming, Outgoing};

/// Carries out calls over the memory that ranks share, or the connections between them.
#[derive(Debug)]
pub(crate) struct Host(Own<Office>);

/// What it does so with.
#[derive(Debug)]
struct Office {
    name: &'static str,
    queue: Arc<Queue>,
    post: Arc<Post>,
    courier: Arc<Courier>,
    membership: Arc<Membership>,
}

impl Host {
    /// Of the group whose calls take this road, which is called so, and whose messages this post. `patience` is how the
    /// progress thread waits.
    pub(crate) fn new(
        name: &'static str,
        road: Road,
        post: Arc<Post>,
        patience: Patience,
        membership: Arc<Membership>,
    ) -> Self {
        let courier = Courier::new(post.clone(), patience);
        let queue = Queue::new(road, patience);
        Self(Own::new(Office { name, queue, post, courier, membership }))
    }
}

impl Backend for Host {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    #[inline]
    fn run(&self, call: &Call<'_>, terms: Terms) -> Result<u64> {
        self.0.queue.run(call, terms)
    }

    fn submit(&self, job: Job) -> u64 {
        self.0.queue.submit(job)
    }

    #[inline]
    fn exchange(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
        timeout: Duration,
    ) -> Result<Option<Rank>> {
        let from = self.0.post.carry_out(Exchange::new(outgoing, incoming), timeout)?;
        Ok(from.map(|rank| Rank(rank as u32)))
    }

    fn submit_message(&self, delivery: Delivery) {
        self.0.courier.submit(delivery);
    }

    fn abort(&self, reason: &str) {
        self.0.queue.abort(reason);
    }

    fn error(&self) -> Option<Error> {
        self.0.queue.error()
    }

    fn calls(&self) -> u64 {
        self.0.queue.calls()
    }

    fn help(&self, number: u64) {
        self.0.queue.help(number);
    }

    fn is_carried_here(&self) -> bool {
        self.0.queue.is_carried_here()
    }

    fn help_with_messages(&self, is_done: &dyn Fn() -> bool) {
        self.0.courier.help(is_done);
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.courier.close(&self.queue, &self.membership);
    }
}

/// Whether the kernels of this crate combine numbers of a type in a way.
pub(super) fn combines(dtype: Dtype, op: ReduceOp) -> bool {
    Kernel::new(dtype, op, 1).is_ok()
}

static CAPABILITIES: Capabilities = Capabilities {
    operations: &Operation::ALL,
    dtypes: &Dtype::ALL,
    combines,
    moves_data: true,
    abort_reaches_all: true,
    notices_death: true,
};
