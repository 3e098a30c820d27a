//! NCCL, for calls on memory of devices.
//!
//! NCCL itself knows nothing of ranks that call something else, that do not come, or that die: its calls wait
//! on the device for ever. So nothing is given to it before all ranks have agreed, in a group of their own on
//! the host ([`control`](Inner::control)), that they are about to make the same call; a rank that does not
//! come is named there as in any other group. What can still go wrong after that is noticed by whoever waits
//! for the device ([`watch`]): that a rank has died, that the time is up, that NCCL reports an error, or that
//! somebody has ended the group. Then the communicator is aborted, which ends what it does on the device, and
//! the group gets a verdict.
//!
//! ```text
//!  run ────▶ order ─▶ agree on the host ─▶ NCCL ─▶ stream ─▶ event ◀─ watch
//!  submit ─▶ worker ─┘                                         └──▶ result
//! ```
//!
//! The communicator has a stream of its own, which waits for all that the device's default stream was given
//! before the call, or for the event that the call [is after](crate::device::calls::OnDevice::after). Symmetric
//! memory has a communicator and a stream of its own ([`side`]).

mod agreement;
mod context;
mod ending;
mod issue;
mod joining;
mod order;
mod parts;
mod side;
mod watch;
mod worker;

use std::fmt::{self, Display};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use consort_store::Deadline;
use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::origin::Own;

use self::context::{Failed, on_device};
use self::ending::{LINGER, give_up, leave};
use self::issue::is_listed;
pub(crate) use self::joining::check_equipment;
use self::order::{Order, Place, Ticket};
pub(crate) use self::side::{Bell, Missed, Part, Side};
use self::watch::AT_WORK;
use self::worker::Worker;
use super::{Backend, Capabilities, Terms, host};
use crate::call::{Call, Description, Operation, Within};
use crate::delivery::Delivery;
use crate::device::{Device, Event, Stream, Streams};
use crate::engine::{Cause, Deadlines, Lookout, Waiting};
use crate::error::{Error, Result};
use crate::group::{Group, Rank};
use crate::job::Job;
use crate::nccl::{self, Comm};
use crate::p2p::{Incoming, Outgoing};

/// Carries out calls on the memory of one device of each rank.
#[derive(Debug)]
pub(crate) struct Nccl(Own<Office>);

/// A rank's way to it.
#[derive(Debug)]
struct Office {
    inner: Arc<Own<Inner>>,
    /// The thread that carries out what was submitted, once there is one.
    worker: Mutex<Option<Worker>>,
    /// How often symmetric memory was asked for.
    requests: Mutex<u64>,
}

/// What it does so with.
#[derive(Debug)]
struct Inner {
    me: usize,
    world: usize,
    /// What is known of the group's ranks, and decided about it. Its calls are written down aside.
    lookout: Lookout,
    /// Where the same ranks agree on what they are about to do.
    control: Group,
    device: Device,
    stream: Arc<Stream>,
    /// There until the end.
    comm: Option<Arc<Comm>>,
    order: Order,
    /// The group's symmetric memory.
    sides: Mutex<Vec<Weak<Side>>>,
    /// Whoever gives it back, and says nothing until that is done.
    keepers: Mutex<Vec<Receiver<()>>>,
}

impl Inner {
    /// Carries out a call, as one whose turn it is.
    fn carry_out(
        &self,
        call: &Call<'_>,
        (terms, streams): (Terms, Streams),
        number: u64,
        until: Deadline,
    ) -> Result<()> {
        if let Some(error) = self.lookout.error() {
            return Err(error);
        }
        let told = Description::of(call, self.world, Within::Nothing);
        let told = told.made_for(terms.purpose, terms.sizes);
        let until = Limit { own: until, others: self.order.deadlines().clone() };
        let (this, is_for_all, began) = (OnDevices(&told), told.is_for_all(), Instant::now());
        let wait = Wait { call: &this, number, is_for_all, until, began };
        self.lookout.diary().begin(number, &told, terms.site);
        let done = self.agree_and_do(call, streams, &told, &wait);
        self.lookout.diary().end(number, &told, done.is_ok(), 0);
        done
    }

    fn agree_and_do(
        &self,
        call: &Call<'_>,
        mut streams: Streams,
        told: &Description,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let by_parts = self.agree(told, is_listed(call), wait)?;
        self.agree_on_parts(call, wait)?;
        let Some(done) = self.launch(call, by_parts, streams.after(), wait)? else {
            return Ok(());
        };
        let done = Arc::new(done);
        streams.tell(&done);
        self.watch(self.comm(), &done, wait)
    }

    fn comm(&self) -> &Arc<Comm> {
        self.comm.as_ref().expect("it is there until the end")
    }

    /// Waits for a place's turn.
    ///
    /// # Errors
    /// When it does not come in time: then the group ends, for no rank can leave out a call. Whoever has its turn is
    /// the first to find that, and knows who is late.
    fn take_turn(&self, place: Place, until: Deadline) -> Result<Ticket<'_>> {
        let (number, began) = (place.number, Instant::now());
        let until =
            until.remaining().map_or(until, |left| Deadline::after(left.saturating_add(GRACE)));
        self.order.wait(place, until).ok_or_else(|| {
            let call = "a call behind others that have not ended".to_owned();
            let waiting = Waiting { call, number, waited: began.elapsed() };
            let missing = [self.me].into_iter().collect();
            self.decide(Cause::Late { missing, waiting })
        })
    }

    /// Gives a call to NCCL, after an event or what the default stream was given. What this gives happens when it is
    /// done; `None` if there is nothing to do: ranks that have agreed have met.
    fn launch(
        &self,
        call: &Call<'_>,
        by_parts: bool,
        after: Option<&Event>,
        wait: &Wait<'_>,
    ) -> Result<Option<Event>> {
        if matches!(call, Call::Barrier) {
            return Ok(None);
        }
        let ready = match after {
            Some(event) => self.stream.wait_for(event),
            None => Event::of_default(&self.device).and_then(|it| self.stream.wait_for(&it)),
        };
        ready.map_err(|error| self.fail(&error))?;
        let group = || nccl::group(self.comm().library(), || self.issue(call, by_parts));
        let issued = self.watched(&wait.until, || on_device(&self.device, group));
        let event = match issued {
            Ok(()) => self.stream.record().map_err(|error| self.fail(&error)),
            Err(error) => Err(self.cannot_launch(&error, wait)),
        };
        event.map(Some).inspect_err(|_| self.clear_away())
    }

    /// Lets NCCL wait for other ranks only as long as there is a sense in that: it connects to them when it first needs
    /// them.
    fn watched<T>(&self, until: &Limit, call: impl FnOnce() -> T) -> T {
        let (lookout, until) = (self.lookout.clone(), until.clone());
        nccl::watched(move || why_give_up(&lookout, &until), call)
    }

    #[cold]
    fn cannot_launch(&self, error: &Failed, wait: &Wait<'_>) -> Error {
        use nccl::Error::{Deadline, GivenUp};
        match error {
            Failed::Nccl(GivenUp { .. } | Deadline { .. }) if wait.until.has_passed() => {
                self.too_late(wait)
            }
            _ => self.fail(error),
        }
    }

    /// Ends the group because of what the device, or NCCL, has said.
    #[cold]
    fn fail(&self, error: &dyn std::error::Error) -> Error {
        self.give_up(format!("device {}: {error}", self.device.number()))
    }

    /// Ends the group, and what the device does for it.
    #[cold]
    fn decide(&self, cause: Cause) -> Error {
        let error = self.lookout.decide(cause);
        self.end();
        error
    }

    /// Ends what the device does for the group, and the wait of those who are about to agree.
    #[cold]
    fn end(&self) {
        self.control.abort(ENDED);
        let sides: Vec<_> = lock(&self.sides).iter().filter_map(Weak::upgrade).collect();
        sides.iter().for_each(|side| side.hush());
        give_up(&self.device, sides.iter().map(|side| side.comm()).chain([self.comm()]));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let until = Instant::now() + LINGER;
        for keeper in lock(&self.keepers).drain(..) {
            let _ = keeper.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        match self.comm.take() {
            Some(comm) if self.lookout.has_ended() => {
                give_up(&self.device, [&comm]);
                self.device.end_inside(|| drop(comm));
            }
            Some(comm) => leave(comm, &self.device),
            None => {}
        }
    }
}

impl Backend for Nccl {
    fn name(&self) -> &'static str {
        "nccl"
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        self.0.inner.check(call)
    }

    fn run(&self, call: &Call<'_>, terms: Terms) -> Result<u64> {
        let inner = &self.0.inner;
        inner.check(call)?;
        let until = Deadline::after(terms.timeout);
        let place = inner.order.join(1, until);
        let number = place.number;
        let _turn = inner.take_turn(place, until)?;
        inner.carry_out(call, (terms, Streams::default()), number, until)?;
        Ok(number)
    }

    fn submit(&self, job: Job) -> u64 {
        self.0.hand_over(job)
    }

    fn exchange(
        &self,
        _outgoing: Option<Outgoing<'_>>,
        _incoming: Option<Incoming<'_>>,
        _timeout: Duration,
    ) -> Result<Option<Rank>> {
        Err(no_messages())
    }

    fn submit_message(&self, delivery: Delivery) {
        delivery.finish(Err(no_messages()));
    }

    fn abort(&self, reason: &str) {
        self.0.inner.lookout.abort(reason);
        self.0.inner.control.abort(reason);
        self.0.inner.end();
    }

    fn error(&self) -> Option<Error> {
        self.0.inner.lookout.error()
    }

    fn calls(&self) -> u64 {
        self.0.inner.order.calls()
    }
}

/// Why messages of device memory are refused.
pub(crate) fn no_messages() -> Error {
    Error::Argument(
        "messages of device memory are not carried by groups: NCCL has neither tags nor memory for what nobody \
         receives yet; copy them to the host, or use consort::nccl::Comm, whose sends and receives are grouped"
            .to_owned(),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that this rank waits in.
struct Wait<'a> {
    call: &'a dyn Display,
    number: u64,
    /// Whether no rank is done with it before all have begun.
    is_for_all: bool,
    until: Limit,
    began: Instant,
}

impl Wait<'_> {
    fn waiting(&self) -> Waiting {
        let (call, waited) = (self.call.to_string(), self.began.elapsed());
        Waiting { call, number: self.number, waited }
    }
}

/// How long somebody waits.
#[derive(Clone, Debug)]
struct Limit {
    own: Deadline,
    /// Those of others, who wait for it.
    others: Deadlines,
}

impl Limit {
    fn has_passed(&self) -> bool {
        self.own.has_passed() || self.others.soonest().has_passed()
    }
}

impl From<Deadline> for Limit {
    /// Of one for whom nobody waits.
    fn from(own: Deadline) -> Self {
        Self { own, others: Deadlines::default() }
    }
}

/// A call in words that tell it from those on the host's memory, which are counted by themselves.
struct OnDevices<'a>(&'a Description);

impl Display for OnDevices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on devices", self.0)
    }
}

/// Why not to wait for NCCL any longer, if there is a reason.
fn why_give_up(lookout: &Lookout, until: &Limit) -> Option<String> {
    lookout.listen();
    let found = lookout.error().or_else(|| lookout.look_round(|| Waiting::beside(AT_WORK)));
    found
        .map(|error| error.to_string())
        .or_else(|| until.has_passed().then(|| "the time is up".to_owned()))
}

/// Whether NCCL combines numbers of a type in a way, in its newest versions, and calls of a group may ask for it:
/// they do not for premultiplied sums of integers.
fn combines(dtype: Dtype, op: ReduceOp) -> bool {
    let is_number = DTYPES.contains(&dtype) && dtype != Dtype::Bool;
    let nccl_has_it = match op {
        ReduceOp::Max | ReduceOp::Min => is_number || dtype == Dtype::Bool,
        ReduceOp::Sum | ReduceOp::Product | ReduceOp::Avg | ReduceOp::PremulSum(_) => is_number,
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => false,
    };
    nccl_has_it && host::combines(dtype, op)
}

static CAPABILITIES: Capabilities = Capabilities {
    operations: &Operation::ALL,
    dtypes: &Dtype::ALL,
    combines,
    moves_data: true,
    abort_reaches_all: true,
    notices_death: true,
};
/// What those hear who are about to agree, or to tell each other something.
const ENDED: &str = "the group has ended";
/// How much longer than its own time somebody waits for its turn.
const GRACE: Duration = Duration::from_secs(1);
/// Those that NCCL has, and `bool`.
const DTYPES: [Dtype; 13] = [
    Dtype::Bool,
    Dtype::I8,
    Dtype::U8,
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F32,
    Dtype::F64,
    Dtype::F8E4m3,
    Dtype::F8E5m2,
];
