//! Symmetric memory of devices.

use std::sync::Arc;
use std::time::Duration;

use consort_sys::view::{Source, Space, Target};

use super::anywhere::{SymmetricMemory, check_bytes, check_channel, check_space};
use super::options::Options;
use super::rendezvous::{Card, Kind, Trouble, exchange};
use super::wait::Wait;
use crate::backend::{Bell, Missed, Nccl, Part, Side};
use crate::device::Device;
use crate::engine::Stakes;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};

/// A rank's hold on symmetric memory of devices: as many bytes on the device of each rank.
///
/// Clones are the same memory. What it does is in [`SymmetricMemory`]; here is what a rank does with its own
/// bytes. The [module](super) tells how it differs from that of the host.
///
/// ```no_run
/// use consort::device::{Driver, calls};
/// use consort::symm::SymmetricMemory;
/// use consort::{Dtype, ReduceOp};
///
/// let group = consort::init()?;
/// let device = Driver::load().and_then(|driver| driver.device(0)).expect("there is an accelerator");
/// let memory = group.symmetric_on(&device, 4 << 20)?;
/// memory.put_with_signal(0.into(), 0, (&[1, 2, 3][..]).into(), 0)?;
/// // A collective call on it owns a clone.
/// let call = calls::all_reduce(memory.clone(), Dtype::F32, ReduceOp::Sum);
/// group.call_async(call)?.wait()?;
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceSymmetric {
    group: Group,
    side: Arc<Side>,
    channels: usize,
}

/// # Symmetric memory of devices
///
/// See [`symm`](crate::symm).
impl Group {
    /// Makes symmetric memory of devices: as many bytes on the device of each rank, zero at first. Every rank has
    /// to call it, with the same length; the first such call, or call on a device's memory, makes the group's
    /// [engine for devices](Self#memory-of-devices).
    ///
    /// Each has a communicator of NCCL's, a stream and a thread of its own, and takes 1 MiB more than it is asked for:
    /// few large ones are better than many small ones.
    ///
    /// # Errors
    /// [`Error::Asymmetric`] on every rank when they differ in what they ask for, or when one of them cannot have
    /// it, which is told why: there is no memory left, NCCL is older than 2.29.2, the group's calls are carried out on
    /// another device. [`Error::PeerUnable`] on every rank when NCCL fails on one, which it names. The group goes
    /// on then. Otherwise as any [`call`](Self::call).
    pub fn symmetric_on(&self, device: &Device, bytes: usize) -> Result<DeviceSymmetric> {
        self.symmetric_on_with(device, bytes, &Options::new())
    }

    /// As [`symmetric_on`](Self::symmetric_on), with options. Only that of the host can be kept under an id.
    ///
    /// # Errors
    /// As [`symmetric_on`](Self::symmetric_on).
    pub fn symmetric_on_with(
        &self,
        device: &Device,
        bytes: usize,
        options: &Options,
    ) -> Result<DeviceSymmetric> {
        let engine = self.nccl_for(device.number())?;
        let mut requests = engine.requests();
        *requests += 1;
        let (number, channels) = (*requests, options.channels);
        let mut card = Card {
            kind: Kind::OfDevices,
            number,
            id: 0,
            dtype: None,
            len: bytes as u64,
            channels: channels as u64,
            since: 0,
            trouble: None,
            places: [0; 2],
        };
        let taken = take(engine, device, bytes, options);
        let (part, reason) = match taken {
            Ok(part) => (Some(part), None),
            Err((trouble, reason)) => {
                card.trouble = Some(trouble);
                (None, Some(Error::Argument(format!("group {}: {reason}", self.name()))))
            }
        };
        exchange(self, &card, reason)?;
        let part = part.expect("who has taken nothing was refused");
        let side = engine.open(self, number, bytes, part)?;
        Ok(DeviceSymmetric { group: self.clone(), side, channels })
    }
}

/// This rank's part, or what stands against it.
fn take(
    engine: &Nccl,
    device: &Device,
    bytes: usize,
    options: &Options,
) -> Result<Part, (Trouble, String)> {
    let (mine, theirs) = (engine.device().number(), device.number());
    if mine != theirs {
        let reason =
            format!("its calls on devices are carried out on device {mine}, not on {theirs}");
        return Err((Trouble::Impossible, reason));
    }
    if let Some(id) = &options.id {
        let reason = format!("symmetric memory of devices is not kept, under {id:?} or otherwise");
        return Err((Trouble::Impossible, reason));
    }
    if u32::try_from(options.channels).is_err() {
        let reason = format!("{} channels are more than there can be", options.channels);
        return Err((Trouble::Impossible, reason));
    }
    engine.check_symmetric().map_err(|reason| (Trouble::TooOld, reason))?;
    engine.take(bytes).map_err(|reason| (Trouble::NoMemory, reason))
}

impl DeviceSymmetric {
    /// This process's number in the group.
    pub fn rank(&self) -> Rank {
        self.group.rank()
    }

    /// How many ranks have a part.
    pub fn world(&self) -> usize {
        self.group.world()
    }

    /// The device that this rank's bytes lie on.
    pub fn device(&self) -> &Device {
        self.side.device()
    }

    /// The same memory, whose methods wait so long for other ranks. For its own device a rank waits ten seconds at
    /// least: what was given to that cannot be taken back, and to give up on it ends the group.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { group: self.group.within(timeout), ..self.clone() }
    }

    /// A name for this rank's bytes, for calls that read them.
    pub fn source(&self) -> Source<'_> {
        self.side.own().into()
    }

    /// A name for this rank's bytes, for calls that write them. Others may put data there meanwhile.
    pub fn target(&self) -> Target<'_> {
        self.side.own()
    }

    /// Copies bytes to this rank's own, from a place on.
    ///
    /// # Errors
    /// When there are not so many, or the group has ended.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        SymmetricMemory::put(self, self.rank(), at, bytes.into())
    }

    /// Copies bytes from this rank's own, from a place on. What others have put there is whole after a
    /// [wait](SymmetricMemory::wait_signal) for their signal, or a [barrier](SymmetricMemory::barrier).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<()> {
        SymmetricMemory::get(self, self.rank(), at, bytes.into())
    }

    /// A rank of the group, as an index, for this process to do something with its memory.
    fn index(&self, rank: Rank) -> Result<usize> {
        self.group.backend()?;
        if let Some(error) = self.side.lookout().error() {
            self.side.end();
            return Err(error);
        }
        if rank.index() < self.world() {
            return Ok(rank.index());
        }
        let what = format!("there is no rank {rank} in a group of {}", self.world());
        Err(Error::Argument(what))
    }

    fn describe(&self, what: &str) -> String {
        format!("{what} of symmetric memory {} of devices", self.side.number())
    }

    /// The error for a wait for a rank that has dropped its part.
    #[cold]
    fn dropped(&self, call: &str, rank: usize) -> Error {
        Error::Argument(format!(
            "group {}: {call}: rank {rank} has dropped this memory, and signals no more: keep it until all have taken \
             what they wait for",
            self.group.name()
        ))
    }

    /// A wait for other ranks.
    fn wait(&self) -> Wait<'_> {
        Wait::on(self.side.lookout(), self.group.timeout())
    }

    /// Waits until a rank has rung, and what it has put before is here.
    fn hear(
        &self,
        wait: &mut Wait<'_>,
        call: String,
        (from, bell): (usize, Bell),
        stakes: Stakes,
    ) -> Result<()> {
        let lookout = self.side.lookout();
        let heard = self.side.listen(from, bell, || {
            lookout.listen();
            wait.look_round(&[from])
        });
        match heard {
            Ok(puts) => self.side.receive(&call, from, puts, self.group.timeout()),
            Err(Missed::Dropped) => Err(self.dropped(&call, from)),
            Err(Missed::Closed(error)) => Err(self.side.lose(wait.waiting(call), &error)),
            Err(Missed::Stuck(stuck)) => {
                let is_missing = |&rank: &usize| !self.side.has_heard(rank, bell);
                let others = (from + 1..self.world()).filter(is_missing);
                let others = others.take_while(|_| stakes == Stakes::Group);
                let missing =
                    [from].into_iter().chain(others.filter(|&rank| rank != self.rank().index()));
                let error = wait.give_up(stuck, call, missing, stakes);
                if lookout.has_ended() {
                    self.side.end();
                }
                Err(error)
            }
        }
    }
}

impl SymmetricMemory for DeviceSymmetric {
    fn group(&self) -> &Group {
        &self.group
    }

    fn bytes(&self) -> usize {
        self.side.bytes()
    }

    fn space(&self) -> Space {
        Space::Device(self.device().number())
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn reaches(&self, rank: Rank) -> bool {
        self.side.reaches(rank.index())
    }

    fn put(&self, to: Rank, at: usize, bytes: Source<'_>) -> Result<()> {
        let to = self.index(to)?;
        check_space(bytes.space(), &[Space::Host, self.space()])?;
        check_bytes(at, bytes.len(), self.side.bytes())?;
        self.side.put(&self.describe("put"), to, at, bytes, self.group.timeout())
    }

    fn get(&self, from: Rank, at: usize, bytes: Target<'_>) -> Result<()> {
        let rank = self.index(from)?;
        check_space(bytes.space(), &[Space::Host, self.space()])?;
        check_bytes(at, bytes.len(), self.side.bytes())?;
        if !self.side.reaches(rank) {
            let what = format!(
                "this rank's device does not reach the memory of rank {from}: have that rank put_with_signal what is \
                 wanted of it"
            );
            return Err(Error::Argument(what));
        }
        self.side.get(&self.describe("get"), rank, at, bytes, self.group.timeout())
    }

    fn put_signal(&self, to: Rank, channel: usize) -> Result<()> {
        let to = self.index(to)?;
        check_channel(channel, self.channels)?;
        let (call, bell) = (self.describe("put_signal"), Bell::Signal(channel as u32));
        self.side.ring(&call, to, bell, self.group.timeout())
    }

    fn wait_signal(&self, from: Rank, channel: usize) -> Result<()> {
        let from = self.index(from)?;
        check_channel(channel, self.channels)?;
        let call = self.describe(&format!("wait_signal on channel {channel}"));
        self.hear(&mut self.wait(), call, (from, Bell::Signal(channel as u32)), Stakes::Wait)
    }

    fn barrier(&self, channel: usize) -> Result<()> {
        let me = self.index(self.rank())?;
        check_channel(channel, self.channels)?;
        let call = self.describe(&format!("barrier on channel {channel}"));
        let bell = Bell::Barrier(channel as u32);
        let others = || (0..self.world()).filter(|&rank| rank != me);
        others().try_for_each(|rank| self.side.ring(&call, rank, bell, self.group.timeout()))?;
        // All of them have to come in the time of one wait.
        let mut wait = self.wait();
        others()
            .try_for_each(|rank| self.hear(&mut wait, call.clone(), (rank, bell), Stakes::Group))
    }
}
