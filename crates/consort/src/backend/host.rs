//! This host's shared memory.

use std::sync::Arc;
use std::time::Duration;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::wait::Patience;

use super::{Backend, Capabilities, Terms};
use crate::call::{Call, Operation};
use crate::engine::{Exchange, Lane, Post, Queue};
use crate::error::Result;
use crate::group::{Job as Membership, Rank};
use crate::job::Job;
use crate::p2p::{Incoming, Outgoing};

/// Carries out calls over the memory that the ranks of a host share.
#[derive(Debug)]
pub(crate) struct Host {
    queue: Arc<Queue>,
    /// `None` when it is being left: then it belongs to the queue alone.
    post: Option<Arc<Post>>,
    membership: Arc<Membership>,
}

impl Host {
    /// Of the group that has this lane. `patience` is how the progress thread waits.
    pub(crate) fn new(lane: Lane, patience: Patience, membership: Arc<Membership>) -> Self {
        let post = Some(lane.post().clone());
        Self { queue: Queue::new(lane, patience), post, membership }
    }

    #[inline]
    fn post(&self) -> &Post {
        self.post.as_ref().expect("nobody has let go of the group")
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
    fn run(&self, call: &Call<'_>, terms: Terms) -> Result<()> {
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
        let from = self.post().carry_out(Exchange::new(outgoing, incoming), timeout)?;
        Ok(from.map(|rank| Rank(rank as u32)))
    }

    fn abort(&self, reason: &str) {
        self.queue.abort(reason);
        self.post().ring_all();
    }

    fn calls(&self) -> u64 {
        self.queue.calls()
    }

    fn help(&self, number: u64) {
        self.queue.help(number);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.post = None;
        self.queue.close(self.membership.clone());
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
