//! What a group that only pretends would have sent.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::call::Call;
use crate::group::Group;

/// What the calls of a [fake group](Group::fake), and of all groups that were made of it, would have sent: a
/// row for each operation of each group, in the order in which they first came.
///
/// ```
/// use consort::{Group, ReduceOp};
///
/// let group = Group::fake(0, 1024)?;
/// let mut activations = vec![0.0_f32; 1 << 20];
/// group.all_reduce(&mut activations, ReduceOp::Sum)?;
/// group.all_reduce(&mut activations, ReduceOp::Sum)?;
/// let traffic = group.traffic().expect("it is a fake group");
/// let row = &traffic.rows[0];
/// assert_eq!((row.operation, row.calls, row.bytes), ("all_reduce", 2, 8 << 20));
/// println!("{traffic}");
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// What was called.
    pub rows: Vec<TrafficRow>,
}

/// The calls of one operation in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrafficRow {
    /// The group.
    pub group: String,
    /// How many ranks it has.
    pub world: usize,
    /// What was called: `all_reduce` and so on, or `send`.
    pub operation: &'static str,
    /// How often.
    pub calls: u64,
    /// How many bytes this rank has had in it: of what it gives, or gets if only the root gives.
    pub bytes: u64,
    /// How many bytes a rank has to send for it at least, on an average over all ranks, if all have as many
    /// as this one.
    pub sent: u64,
}

impl Traffic {
    /// How many bytes a rank has to send in all.
    pub fn sent(&self) -> u64 {
        self.rows.iter().map(|row| row.sent).sum()
    }
}

impl fmt::Display for Traffic {
    /// A table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |row: &TrafficRow| format!("{} ({} ranks)", row.group, row.world);
        let width = self.rows.iter().map(|row| name(row).len()).fold("group".len(), usize::max);
        writeln!(
            f,
            "{:width$}  {:14}  {:>8}  {:>16}  {:>16}",
            "group", "operation", "calls", "bytes per rank", "sent per rank"
        )?;
        for row in &self.rows {
            let TrafficRow { operation, calls, bytes, sent, .. } = row;
            let group = name(row);
            writeln!(f, "{group:width$}  {operation:14}  {calls:>8}  {bytes:>16}  {sent:>16}")?;
        }
        write!(f, "{:width$}  {:14}  {:>8}  {:>16}  {:>16}", "all", "", "", "", self.sent())
    }
}

impl Group {
    /// What the calls of a [fake group](Self::fake) and of its parts would have sent so far; `None` for a
    /// group whose other ranks are there.
    pub fn traffic(&self) -> Option<Traffic> {
        Some(self.shared.job.ledger.as_ref()?.read())
    }
}

/// Where fake groups write down what they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Vec<Entry>>);

/// A row, before what is sent is divided by the number of ranks.
#[derive(Debug)]
struct Entry {
    row: TrafficRow,
    /// What all ranks together send.
    sent_by_all: u128,
}

impl Ledger {
    /// A call of a rank of a group.
    pub(crate) fn note(&self, group: &str, rank: usize, world: usize, call: &Call<'_>) {
        let (bytes, sent_by_all) = volume(call, rank, world);
        self.add(group, world, call.operation().name(), bytes, sent_by_all);
    }

    /// A message of a group.
    pub(crate) fn note_message(&self, group: &str, world: usize, bytes: usize) {
        self.add(group, world, "send", bytes, bytes as u128 * world as u128);
    }

    fn add(
        &self,
        group: &str,
        world: usize,
        operation: &'static str,
        bytes: usize,
        sent_by_all: u128,
    ) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |entry: &Entry| entry.row.group == group && entry.row.operation == operation;
        let at = entries.iter().position(is_same).unwrap_or_else(|| {
            let group = group.to_owned();
            let row = TrafficRow { group, world, operation, calls: 0, bytes: 0, sent: 0 };
            entries.push(Entry { row, sent_by_all: 0 });
            entries.len() - 1
        });
        let Entry { row, sent_by_all: sent } = &mut entries[at];
        row.calls += 1;
        row.bytes += bytes as u64;
        *sent += sent_by_all;
    }

    fn read(&self) -> Traffic {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |Entry { row, sent_by_all }: &Entry| TrafficRow {
            sent: (sent_by_all / row.world as u128) as u64,
            ..row.clone()
        };
        Traffic { rows: entries.iter().map(row).collect() }
    }
}

/// How many bytes a rank has in a call, and how many all have to send for it at least, if they have as many.
fn volume(call: &Call<'_>, rank: usize, world: usize) -> (usize, u128) {
    let (others, world_wide) = (world as u128 - 1, world as u128);
    match *call {
        Call::Barrier => (0, 0),
        Call::AllReduce { input, .. } => (input.len(), 2 * others * input.len() as u128),
        Call::Broadcast { buffer, .. } => (buffer.len(), others * buffer.len() as u128),
        Call::Reduce { input, .. } | Call::Gather { input, .. } => {
            (input.len(), others * input.len() as u128)
        }
        Call::AllGather { input, .. } => (input.len(), others * world_wide * input.len() as u128),
        Call::Scatter { output, .. } => (output.len(), others * output.len() as u128),
        Call::ReduceScatter { inputs, .. } | Call::AllToAll { inputs, .. } => {
            let all: usize = (0..world).map(|rank| inputs.part(rank, world).len()).sum();
            let own = inputs.part(rank, world).len();
            (all, world_wide * (all - own) as u128)
        }
    }
}
