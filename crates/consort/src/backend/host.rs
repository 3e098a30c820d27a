//! This host's shared memory.

use std::sync::Arc;
use std::time::Duration;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::wait::Patience;

use super::{Backend, Capabilities, Terms};
use crate::call::{Call, Operation};
use crate::delivery::Delivery;
use crate::engine::{Courier, Exchange, Lane, Post, Queue};
use crate::error::{Error, Result};
use crate::group::{Job as Membership, Rank};
use crate::job::Job;
use crate::p2p::{Incoming, Outgoing};

/// Carries out calls over the memory that the ranks of a host share.
#[derive(Debug)]
pub(crate) struct Host {
    queue: Arc<Queue>,
    post: Arc<Post>,
    courier: Arc<Courier>,
    membership: Arc<Membership>,
}

impl Host {
    /// Of the group that has this lane. `patience` is how the progress thread waits.
    pub(crate) fn new(lane: Lane, patience: Patience, membership: Arc<Membership>) -> Self {
        let post = lane.post().clone();
        let courier = Courier::new(post.clone(), patience);
        Self { queue: Queue::new(lane, patience), post, courier, membership }
    }
}

impl Backend for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    #[inline]
    fn run(&self, call: &Call<'_>, terms: Terms) -> Result<u64> {
        self.queue.run(call, terms)
    }

    fn submit(&self, job: Job) -> u64 {
        self.queue.submit(job)
    }

    #[inline]
    fn exchange(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
        timeout: Duration,
    ) -> Result<Option<Rank>> {
        let from = self.post.carry_out(Exchange::new(outgoing, incoming), timeout)?;
        Ok(from.map(|rank| Rank(rank as u32)))
    }

    fn submit_message(&self, delivery: Delivery) {
        self.courier.submit(delivery);
    }

    fn abort(&self, reason: &str) {
        self.queue.abort(reason);
        self.post.ring_all();
    }

    fn error(&self) -> Option<Error> {
        self.queue.error()
    }

    fn calls(&self) -> u64 {
        self.queue.calls()
    }

    fn help(&self, number: u64) {
        self.queue.help(number);
    }

    fn help_with_messages(&self, is_done: &dyn Fn() -> bool) {
        self.courier.help(is_done);
    }
}

impl Drop for Host {
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
