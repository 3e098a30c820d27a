//! One of consort's ranks: does what it is told, through the library's public face alone.

use std::error::Error as StdError;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clap::Args;
use consort::{Builder, Element, Error, Group, Transport};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::clock;
use crate::order::{Call, Dtype, Op, Order};

/// Who this rank is, and where the others are.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// Where orders come from.
    #[arg(long)]
    socket: PathBuf,
    /// Where ranks meet.
    #[arg(long)]
    store: String,
    #[arg(long)]
    secret_file: PathBuf,
    #[arg(long)]
    transport: Transport,
    #[arg(long)]
    rank: u32,
    #[arg(long)]
    world: u32,
    /// Seconds that a call may wait.
    #[arg(long)]
    timeout: u64,
}

/// Does what it is told until nobody tells it anything.
pub(crate) fn serve(place: &Place) -> Result<(), Box<dyn StdError>> {
    // It may be in a loop when the harness is killed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let stream = UnixStream::connect(&place.socket)?;
    let mut rank = Rank {
        group: meet(place, place.rank, place.world, 0)?,
        place: place.clone(),
        voice: Arc::new(Mutex::new(stream.try_clone()?)),
        epoch: 0,
    };
    let version = env!("CARGO_PKG_VERSION");
    let name = rank.group.backend_name()?;
    rank.say(&format!("here {} {} consort {version} {name}", place.rank, process::id()));
    for line in BufReader::new(stream).lines() {
        rank.obey(line?.parse()?);
    }
    Ok(())
}

struct Rank {
    place: Place,
    group: Group,
    /// What is said reaches the harness whole, from whichever thread.
    voice: Arc<Mutex<UnixStream>>,
    epoch: u64,
}

impl Rank {
    fn obey(&mut self, order: Order) {
        if let Order::Abort(after) = order {
            return self.abort_after(after);
        }
        self.say(&format!("begins {}", clock::nanoseconds()));
        let outcome = match order {
            Order::Call(call) => make(&self.group, call),
            Order::Loop(call) => loop {
                if let Err(error) = make(&self.group, call) {
                    break Err(error);
                }
            },
            Order::Pending { count, call } => begin(&self.group, count, call),
            Order::Exit(code) => process::exit(code),
            Order::Regroup(ranks) => self.regroup(&ranks),
            Order::Abort(_) => unreachable!("done above"),
        };
        let at = clock::nanoseconds();
        self.say(&match outcome {
            Ok(value) => format!("did {at} good {value}"),
            Err(error) => format!("did {at} failed {:?} {error}", error.kind()),
        });
    }

    fn abort_after(&self, after: Duration) {
        let (group, voice) = (self.group.clone(), self.voice.clone());
        thread::spawn(move || {
            thread::sleep(after);
            say(&voice, &format!("aborts {}", clock::nanoseconds()));
            group.abort("this takes too long");
        });
    }

    fn regroup(&mut self, ranks: &[u32]) -> Result<String, Error> {
        let me = ranks.iter().position(|&rank| rank == self.place.rank);
        let Some(me) = me else {
            return Err(Error::Argument("this rank is not in the new group".to_owned()));
        };
        self.epoch += 1;
        self.group = meet(&self.place, me as u32, ranks.len() as u32, self.epoch)?;
        let (dtype, count, op, value) = (Dtype::F32, 1024, Op::Sum, 1);
        make(&self.group, Call::AllReduce { dtype, count, op, value })
    }

    fn say(&self, line: &str) {
        say(&self.voice, line);
    }
}

/// Says something to the harness. If that is gone, there is nobody to tell: the next order that does
/// not come ends this rank.
fn say(voice: &Mutex<UnixStream>, line: &str) {
    let line = format!("{}\n", line.replace('\n', "; "));
    let mut stream = voice.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = stream.write_all(line.as_bytes());
}

fn meet(place: &Place, rank: u32, world: u32, epoch: u64) -> Result<Group, Error> {
    Builder::new()
        .address(&place.store)?
        .secret_file(&place.secret_file)
        .rank(rank)
        .world(world)
        .epoch(epoch)
        .transport(place.transport)
        .timeout(Duration::from_secs(place.timeout))
        .init()
}

/// Makes a call, and gives the first element of its result.
fn make(group: &Group, call: Call) -> Result<String, Error> {
    match call {
        Call::Barrier => group.barrier().map(|()| String::new()),
        Call::AllReduce { dtype: Dtype::F32, count, op, value } => {
            all_reduce(group, vec![value as f32; count], op)
        }
        Call::AllReduce { dtype: Dtype::I32, count, op, value } => {
            all_reduce(group, vec![value; count], op)
        }
        Call::Broadcast { dtype: Dtype::F32, count, value } => {
            broadcast(group, vec![value as f32; count])
        }
        Call::Broadcast { dtype: Dtype::I32, count, value } => broadcast(group, vec![value; count]),
    }
}

fn all_reduce<T: Element + std::fmt::Display>(
    group: &Group,
    mut numbers: Vec<T>,
    op: Op,
) -> Result<String, Error> {
    group.all_reduce(&mut numbers, reduction(op))?;
    Ok(numbers[0].to_string())
}

fn broadcast<T: Element + std::fmt::Display>(
    group: &Group,
    mut numbers: Vec<T>,
) -> Result<String, Error> {
    group.broadcast(&mut numbers, 0)?;
    Ok(numbers[0].to_string())
}

/// Begins so many calls, and waits for all.
fn begin(group: &Group, count: u32, call: Call) -> Result<String, Error> {
    let Call::AllReduce { dtype: Dtype::F32, count: length, op, value } = call else {
        return Err(Error::Argument(format!("{call} cannot be pending here")));
    };
    let numbers = || vec![value as f32; length];
    let works: Result<Vec<_>, _> =
        (0..count).map(|_| group.all_reduce_async(numbers(), reduction(op))).collect();
    let results: Vec<_> = works?.into_iter().map(|work| work.wait()).collect();
    let results: Result<Vec<_>, _> = results.into_iter().collect();
    Ok(results?.last().and_then(|last| last.first()).map(f32::to_string).unwrap_or_default())
}

fn reduction(op: Op) -> consort::ReduceOp {
    match op {
        Op::Sum => consort::ReduceOp::Sum,
        Op::Max => consort::ReduceOp::Max,
    }
}
