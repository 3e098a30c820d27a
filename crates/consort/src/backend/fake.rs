//! Somebody who only pretends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::host::combines;
use super::{Backend, Capabilities, Terms};
use crate::call::{Call, Inputs, Operation, Outputs};
use crate::delivery::{Delivery, Message};
use crate::error::{Error, Result};
use crate::group::Rank;
use crate::job::{Job, Lists};
use crate::p2p::{Incoming, Outgoing};
use crate::traffic::Ledger;

/// Carries out calls as if all other ranks were there and had what this one has. See
/// [`Group::fake`](crate::Group::fake).
#[derive(Debug)]
pub(crate) struct Fake {
    group: String,
    rank: Rank,
    world: usize,
    ledger: Arc<Ledger>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    aborted: Option<String>,
}

impl Fake {
    pub(crate) fn new(group: &str, rank: Rank, world: usize, ledger: Arc<Ledger>) -> Self {
        Self { group: group.to_owned(), rank, world, ledger, state: Mutex::default() }
    }

    /// Counts calls. Says which the last of them is.
    fn begin(&self, count: u64) -> Result<u64> {
        let mut state = self.lock();
        match self.ended(&state) {
            Some(error) => Err(error),
            None => {
                state.calls += count;
                Ok(state.calls)
            }
        }
    }

    fn ended(&self, state: &State) -> Option<Error> {
        let reason = state.aborted.clone()?;
        Some(Error::Aborted { group: self.group.clone(), by: self.rank.get(), reason })
    }

    fn pretend(&self, call: &Call<'_>) {
        let (me, world) = (self.rank.index(), self.world);
        self.ledger.note(&self.group, me, world, call);
        match *call {
            Call::Barrier | Call::Broadcast { .. } => {}
            Call::AllReduce { input, output, .. } => output.copy_from(input),
            Call::Reduce { input, output, .. } => {
                output.into_iter().for_each(|output| output.copy_from(input));
            }
            Call::AllGather { input, outputs, .. } => gather(input, outputs, world),
            Call::Gather { input, outputs, .. } => {
                outputs.into_iter().for_each(|outputs| gather(input, outputs, world));
            }
            Call::Scatter { inputs, output, .. } => {
                inputs.into_iter().for_each(|inputs| output.copy_from(inputs.part(me, world)));
            }
            Call::ReduceScatter { inputs, output, .. } => output.copy_from(inputs.part(me, world)),
            Call::AllToAll { inputs, outputs, .. } => exchange(inputs, outputs, world),
        }
    }

    fn lose(&self, message: &Outgoing<'_>) {
        self.ledger.note_message(&self.group, self.world, message.data.len());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn run(&self, call: &Call<'_>, _terms: Terms) -> Result<u64> {
        let number = self.begin(1)?;
        self.pretend(call);
        Ok(number)
    }

    fn submit(&self, mut job: Job) -> u64 {
        let number = self.calls() + 1;
        job.accept(number);
        let begun = self.begin(job.count() as u64);
        if begun.is_ok() {
            for index in 0..job.count() {
                self.pretend(&job.call(index, &mut Lists::default()));
            }
        }
        job.finish(begun.map(drop));
        number
    }

    fn exchange(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
        _timeout: Duration,
    ) -> Result<Option<Rank>> {
        self.begin(0)?;
        outgoing.iter().for_each(|message| self.lose(message));
        Ok(incoming.map(|message| message.from.unwrap_or(self.rank)))
    }

    fn submit_message(&self, mut delivery: Delivery) {
        let done = self.begin(0).map(|_| match delivery.message() {
            Message::Out(message) => {
                self.lose(&message);
                None
            }
            Message::In(message) => Some(message.from.unwrap_or(self.rank)),
        });
        delivery.finish(done);
    }

    fn abort(&self, reason: &str) {
        self.lock().aborted.get_or_insert_with(|| reason.to_owned());
    }

    fn error(&self) -> Option<Error> {
        self.ended(&self.lock())
    }

    fn calls(&self) -> u64 {
        self.lock().calls
    }
}

fn gather(input: Source<'_>, outputs: Outputs<'_>, world: usize) {
    (0..world).for_each(|rank| repeat(input, outputs.part(rank, world)));
}

fn exchange(inputs: Inputs<'_>, outputs: Outputs<'_>, world: usize) {
    (0..world).for_each(|rank| repeat(inputs.part(rank, world), outputs.part(rank, world)));
}

/// Copies; into what is larger over and over, into what is smaller only the beginning.
fn repeat(from: Source<'_>, to: Target<'_>) {
    if from.is_empty() {
        return;
    }
    let mut at = 0;
    while at < to.len() {
        let len = from.len().min(to.len() - at);
        to.slice(at..at + len).copy_from(from.slice(0..len));
        at += len;
    }
}

static CAPABILITIES: Capabilities = Capabilities {
    operations: &Operation::ALL,
    dtypes: &Dtype::ALL,
    combines,
    moves_data: false,
    abort_reaches_all: false,
    notices_death: false,
};
