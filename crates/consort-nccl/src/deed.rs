//! What a communicator is asked to do: a collective or a message, with the program's memory.

use std::ffi::c_int;
use std::iter;
use std::sync::Arc;

use consort::{
    Call, Dtype, Group, Incoming, Inputs, Lists, Message, Outgoing, Outputs, OwnedCall,
    OwnedMessage, Rank, Tag,
};

use crate::comm::Combination;
use crate::failure::{Failure, Result};
use crate::memory::Region;
use crate::raw::Buffer;
use crate::turns::Use;
use crate::window::{Service, Signal, Underway, Wanted};

/// Something to be done, which was checked and waits for its turn.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    dtype: Dtype,
    task: Task,
}

#[derive(Clone, Debug)]
enum Task {
    AllReduce {
        how: Combination,
        input: Region,
        output: Region,
    },
    Broadcast {
        root: Rank,
        input: Option<Region>,
        buffer: Region,
    },
    Reduce {
        how: Combination,
        root: Rank,
        input: Region,
        output: Option<Region>,
    },
    AllGather {
        input: Region,
        output: Region,
    },
    ReduceScatter {
        how: Combination,
        input: Region,
        output: Region,
    },
    AllToAll {
        input: Region,
        output: Region,
    },
    Gather {
        root: Rank,
        input: Region,
        output: Option<Region>,
    },
    Scatter {
        root: Rank,
        input: Option<Region>,
        output: Region,
    },
    Send {
        to: Rank,
        data: Region,
    },
    Recv {
        from: Rank,
        buffer: Region,
    },
    /// To a window and an offset, if it is more than a signal.
    Put {
        service: Arc<Service>,
        data: Option<(u64, usize, Region)>,
        signal: Signal,
    },
    Await {
        service: Arc<Service>,
        wanted: Vec<Wanted>,
    },
}

/// What a deed is made of that C says, and who is asked to do it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) send: Buffer,
    pub(crate) recv: Buffer,
    pub(crate) count: usize,
    pub(crate) dtype: Dtype,
    pub(crate) rank: usize,
    pub(crate) world: usize,
}

impl Words {
    /// How many bytes a rank's part has, and those of all ranks.
    fn sizes(&self) -> Result<(usize, usize)> {
        let part = self.count.checked_mul(self.dtype.size());
        part.and_then(|part| Some((part, part.checked_mul(self.world)?))).ok_or_else(|| {
            Failure::argument(format!(
                "count is {}, which for {} ranks is more than memory can be",
                self.count, self.world
            ))
        })
    }

    fn sent(&self, len: usize) -> Result<Region> {
        Region::new("sendbuff", self.send, len)
    }

    fn received(&self, len: usize) -> Result<Region> {
        Region::new("recvbuff", self.recv, len)
    }

    /// Another rank, or this one.
    fn rank_called(&self, name: &str, rank: c_int) -> Result<Rank> {
        rank_called(name, rank, self.world)
    }

    fn is(&self, rank: Rank) -> bool {
        rank.index() == self.rank
    }

    fn deed(&self, task: Task) -> Result<Deed> {
        let deed = Deed { dtype: self.dtype, task };
        let mut lists = Lists::default();
        let mut ready = Ready { deed: deed.clone(), scaled: None };
        if !deed.is_message() {
            ready.call(&mut lists).check(Rank::from(self.rank as u32), self.world)?;
        }
        Ok(deed)
    }

    pub(crate) fn all_reduce(&self, how: Combination) -> Result<Deed> {
        let (part, _) = self.sizes()?;
        let (input, output) = (self.sent(part)?, self.received(part)?);
        self.deed(Task::AllReduce { how, input, output })
    }

    pub(crate) fn broadcast(&self, root: c_int) -> Result<Deed> {
        let (part, _) = self.sizes()?;
        let root = self.rank_called("root", root)?;
        let buffer = self.received(part)?;
        let input = if self.is(root) { Some(self.sent(part)?) } else { None };
        if input.is_some_and(|input| input != buffer && input.overlaps(buffer)) {
            return Err(Failure::argument("sendbuff overlaps recvbuff, and is not the same"));
        }
        self.deed(Task::Broadcast { root, input, buffer })
    }

    pub(crate) fn reduce(&self, how: Combination, root: c_int) -> Result<Deed> {
        let (part, _) = self.sizes()?;
        let root = self.rank_called("root", root)?;
        let output = if self.is(root) { Some(self.received(part)?) } else { None };
        self.deed(Task::Reduce { how, root, input: self.sent(part)?, output })
    }

    pub(crate) fn all_gather(&self) -> Result<Deed> {
        let (part, all) = self.sizes()?;
        let (input, output) = (self.sent(part)?, self.received(all)?);
        self.deed(Task::AllGather { input, output })
    }

    pub(crate) fn reduce_scatter(&self, how: Combination) -> Result<Deed> {
        let (part, all) = self.sizes()?;
        let (input, output) = (self.sent(all)?, self.received(part)?);
        self.deed(Task::ReduceScatter { how, input, output })
    }

    pub(crate) fn all_to_all(&self) -> Result<Deed> {
        let (_, all) = self.sizes()?;
        let (input, output) = (self.sent(all)?, self.received(all)?);
        self.deed(Task::AllToAll { input, output })
    }

    pub(crate) fn gather(&self, root: c_int) -> Result<Deed> {
        let (part, all) = self.sizes()?;
        let root = self.rank_called("root", root)?;
        let output = if self.is(root) { Some(self.received(all)?) } else { None };
        self.deed(Task::Gather { root, input: self.sent(part)?, output })
    }

    pub(crate) fn scatter(&self, root: c_int) -> Result<Deed> {
        let (part, all) = self.sizes()?;
        let root = self.rank_called("root", root)?;
        let input = if self.is(root) { Some(self.sent(all)?) } else { None };
        self.deed(Task::Scatter { root, input, output: self.received(part)? })
    }

    pub(crate) fn send(&self, peer: c_int) -> Result<Deed> {
        let (part, _) = self.sizes()?;
        let to = self.rank_called("peer", peer)?;
        self.deed(Task::Send { to, data: self.sent(part)? })
    }

    pub(crate) fn recv(&self, peer: c_int) -> Result<Deed> {
        let (part, _) = self.sizes()?;
        let from = self.rank_called("peer", peer)?;
        self.deed(Task::Recv { from, buffer: self.received(part)? })
    }
}

impl Deed {
    /// Data for a peer's window, with a signal; or a signal alone.
    pub(crate) fn put(
        service: Arc<Service>,
        data: Option<(u64, usize, Region)>,
        signal: Signal,
    ) -> Self {
        Self { dtype: Dtype::U8, task: Task::Put { service, data, signal } }
    }

    /// Signals that have to come.
    pub(crate) fn wait(service: Arc<Service>, wanted: Vec<Wanted>) -> Self {
        Self { dtype: Dtype::U8, task: Task::Await { service, wanted } }
    }

    /// Whether it is no collective.
    fn is_message(&self) -> bool {
        use Task::{Await, Put, Recv, Send};
        matches!(self.task, Send { .. } | Recv { .. } | Put { .. } | Await { .. })
    }

    /// How many bytes this rank reads and writes in it.
    pub(crate) fn bytes(&self) -> usize {
        let len = |region: &Option<Region>| region.map_or(0, Region::len);
        match &self.task {
            Task::AllReduce { input, output, .. }
            | Task::AllGather { input, output }
            | Task::ReduceScatter { input, output, .. }
            | Task::AllToAll { input, output } => input.len() + output.len(),
            Task::Broadcast { buffer: only, .. }
            | Task::Send { data: only, .. }
            | Task::Recv { buffer: only, .. } => only.len(),
            Task::Reduce { input, output, .. } | Task::Gather { input, output, .. } => {
                input.len() + len(output)
            }
            Task::Scatter { input, output, .. } => len(input) + output.len(),
            Task::Put { data, .. } => data.map_or(0, |(_, _, data)| data.len()),
            Task::Await { .. } => 0,
        }
    }

    /// Whether another can be done with it by whoever waits for both, with nothing in the background: they are messages,
    /// one each way.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        match (&self.task, &other.task) {
            (Task::Send { data, .. }, Task::Recv { buffer, .. })
            | (Task::Recv { buffer, .. }, Task::Send { data, .. }) => !data.overlaps(*buffer),
            _ => false,
        }
    }

    /// Does it, with another that [goes with](Self::goes_with) it if there is one, and waits until both are done.
    ///
    /// # Errors
    /// Why it could not be done.
    pub(crate) fn carry_out(self, other: Option<Self>, group: &Group) -> Result<()> {
        match self.task {
            Task::Send { .. } | Task::Recv { .. } => self.exchange(other, group),
            Task::Put { .. } | Task::Await { .. } => self.begin(group)?.finish(),
            _ => {
                let mut ready = self.prepare();
                let mut lists = Lists::default();
                Ok(group.call(&ready.call(&mut lists))?)
            }
        }
    }

    fn exchange(mut self, mut other: Option<Self>, group: &Group) -> Result<()> {
        let (mut outgoing, mut incoming) = (None, None);
        for message in iter::once(&mut self).chain(&mut other).map(OwnedMessage::message) {
            match message {
                Message::Out(message) => outgoing = Some(message),
                Message::In(message) => incoming = Some(message),
            }
        }
        group.exchange(outgoing, incoming)?;
        Ok(())
    }

    /// Has it done in the background.
    ///
    /// # Errors
    /// When it makes no sense.
    pub(crate) fn begin(self, group: &Group) -> Result<Begun> {
        Ok(match self.task {
            Task::Put { service, data, signal } => Begun::Put(service.put(data, signal)?),
            Task::Await { service, wanted } => Begun::Await(service, wanted),
            Task::Send { .. } | Task::Recv { .. } => {
                Begun::Message(group.message_async(self).map_err(consort::Error::from)?)
            }
            _ => Begun::Call(group.call_async(self.prepare()).map_err(consort::Error::from)?),
        })
    }

    /// Does what consort's calls do not: a root's own copy of what it broadcasts, and the products of a
    /// premultiplied sum. It is time for it when what the deed reads is there.
    fn prepare(self) -> Ready {
        let scaled = match &self.task {
            Task::Broadcast { input: Some(input), buffer, .. } if input != buffer => {
                buffer.target().copy_from(input.source());
                None
            }
            Task::AllReduce { how: Combination::Own(own), input, .. }
            | Task::Reduce { how: Combination::Own(own), input, .. }
            | Task::ReduceScatter { how: Combination::Own(own), input, .. } => {
                Some(own.factor().times(input.source()))
            }
            _ => None,
        };
        Ready { deed: self, scaled }
    }
}

/// A collective that can be carried out.
#[derive(Debug)]
pub(crate) struct Ready {
    deed: Deed,
    /// What is added up in place of the input, if that is multiplied first.
    scaled: Option<Vec<u8>>,
}

impl OwnedCall for Ready {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let dtype = self.deed.dtype;
        let scaled = self.scaled.as_deref();
        let operand = |input: Region| scaled.map_or_else(|| input.source(), Into::into);
        match &self.deed.task {
            Task::AllReduce { how, input, output } => {
                let (op, input) = (how.op(), operand(*input));
                Call::AllReduce { dtype, op, input, output: output.target() }
            }
            Task::Broadcast { root, buffer, .. } => {
                Call::Broadcast { dtype, root: *root, buffer: buffer.target() }
            }
            Task::Reduce { how, root, input, output } => {
                let (op, input) = (how.op(), operand(*input));
                Call::Reduce { dtype, op, root: *root, input, output: output.map(Region::target) }
            }
            Task::AllGather { input, output } => {
                let outputs = Outputs::Equal(output.target());
                Call::AllGather { dtype, input: input.source(), outputs }
            }
            Task::ReduceScatter { how, input, output } => {
                let (op, inputs) = (how.op(), Inputs::Equal(operand(*input)));
                Call::ReduceScatter { dtype, op, inputs, output: output.target() }
            }
            Task::AllToAll { input, output } => {
                let (inputs, outputs) =
                    (Inputs::Equal(input.source()), Outputs::Equal(output.target()));
                Call::AllToAll { dtype, uneven: false, inputs, outputs }
            }
            Task::Gather { root, input, output } => {
                let outputs = output.map(|output| Outputs::Equal(output.target()));
                let (root, input) = (*root, input.source());
                Call::Gather { dtype, root, uneven: false, input, outputs }
            }
            Task::Scatter { root, input, output } => {
                let inputs = input.map(|input| Inputs::Equal(input.source()));
                let (root, output) = (*root, output.target());
                Call::Scatter { dtype, root, uneven: false, inputs, output }
            }
            Task::Send { .. } | Task::Recv { .. } | Task::Put { .. } | Task::Await { .. } => {
                unreachable!("a message is no call")
            }
        }
    }
}

impl OwnedMessage for Deed {
    fn message(&mut self) -> Message<'_> {
        let (dtype, tag) = (self.dtype, Tag::from(TAG));
        match self.task {
            Task::Send { to, data } => {
                Message::Out(Outgoing { dtype, data: data.source(), to, tag })
            }
            Task::Recv { from, buffer } => {
                let (buffer, from) = (buffer.target(), Some(from));
                Message::In(Incoming { dtype, buffer, from, tag })
            }
            _ => unreachable!("a call is no message"),
        }
    }
}

/// Something that is being done.
#[derive(Debug)]
pub(crate) enum Begun {
    Call(consort::Work<Ready>),
    Message(consort::Work<(Deed, Option<Rank>), Deed>),
    Put(Vec<Underway>),
    Await(Arc<Service>, Vec<Wanted>),
}

impl Begun {
    /// Waits until it is done.
    ///
    /// # Errors
    /// Why it could not be done.
    pub(crate) fn finish(self) -> Result<()> {
        let result = match self {
            Self::Call(work) => work.wait().map(drop).map_err(consort::Error::from),
            Self::Message(work) => work.wait().map(drop).map_err(consort::Error::from),
            // One that is not waited for would still read the program's memory.
            Self::Put(works) => works
                .into_iter()
                .map(|work| work.wait().map(drop).map_err(consort::Error::from))
                .fold(Ok(()), std::result::Result::and),
            Self::Await(service, wanted) => return service.take(&wanted),
        };
        Ok(result?)
    }

    /// Keeps something until it is done, also if nobody waits for that. Signals come to no memory of the program's.
    pub(crate) fn keep(&self, hold: &Use) {
        match self {
            Self::Call(work) => keep_until_done(work, hold),
            Self::Message(work) => keep_until_done(work, hold),
            Self::Put(works) => works.iter().for_each(|work| keep_until_done(work, hold)),
            Self::Await(..) => {}
        }
    }
}

fn keep_until_done<T, B>(work: &consort::Work<T, B>, hold: &Use) {
    let hold = hold.clone();
    work.on_done(move |_| drop(hold));
}

/// A rank of so many.
///
/// # Errors
/// When it is none.
pub(crate) fn rank_called(name: &str, rank: c_int, world: usize) -> Result<Rank> {
    match u32::try_from(rank) {
        Ok(rank) if (rank as usize) < world => Ok(rank.into()),
        _ => Err(Failure::argument(format!(
            "{name} is {rank}, and the ranks are 0 to {}",
            world - 1
        ))),
    }
}

/// All messages of a communicator are about the same.
const TAG: u32 = 0;
