//! How ranks come to have symmetric memory of their devices.

use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use consort_store::Deadline;

use super::super::context::on_device;
use super::super::joining::{Lack, agreed, in_the_group, meet, watched_with};
use super::super::{Inner, Nccl, Wait, give_up, lock};
use super::Side;
use super::keeper::{Estate, Keeper};
use super::part::Part;
use crate::device::{Block, Device, Event};
use crate::error::Result;
use crate::group::Group;
use crate::nccl::{self, Comm, Feature, WindowOptions};

impl Nccl {
    /// How often symmetric memory was asked for. Requests are made one after the other.
    pub(crate) fn requests(&self) -> MutexGuard<'_, u64> {
        lock(&self.0.requests)
    }

    /// Whose memory it works on.
    pub(crate) fn device(&self) -> &Device {
        &self.0.inner.device
    }

    /// Whether NCCL has what symmetric memory needs.
    ///
    /// # Errors
    /// What it has not, in words.
    pub(crate) fn check_symmetric(&self) -> Result<(), String> {
        let library = self.0.inner.comm().library();
        let found = library.version();
        let has_all = NEEDED.into_iter().all(|feature| library.has(feature));
        let since = NEEDED.map(Feature::since).into_iter().max().unwrap_or(found);
        let lack =
            || format!("symmetric memory of devices needs NCCL {since}, and this is {found}");
        has_all.then_some(()).ok_or_else(lack)
    }

    /// Takes this rank's part of symmetric memory, so many bytes.
    ///
    /// # Errors
    /// When there are not so many left.
    pub(crate) fn take(&self, bytes: usize) -> Result<Part, String> {
        let len = bytes.checked_next_multiple_of(PAGE).and_then(|len| len.checked_add(STAGE));
        let len = len.ok_or_else(|| format!("{bytes} bytes are more than can be addressed"))?;
        let taken = Part::new(self.0.inner.comm().library(), &self.0.inner.device, len);
        taken.map_err(|error| error.to_string())
    }

    /// Makes symmetric memory of what each rank has taken, for the program's request of this number. All ranks call
    /// it.
    ///
    /// # Errors
    /// On every rank, when one cannot. What has ended the group, if it has meanwhile.
    pub(crate) fn open(
        &self,
        group: &Group,
        number: u64,
        bytes: usize,
        part: Part,
    ) -> Result<Arc<Side>> {
        let opened = group.beside(&format!("{NAME} {number}"), CALL).and_then(|control| {
            let _heard = group.ends_with_it(&control);
            self.open_in(control, (number, bytes), part, group.timeout())
        });
        opened.map_err(|error| in_the_group(group, &self.0.inner.lookout, CALL, error))
    }

    /// The same among ranks that tell each other things in this group.
    fn open_in(
        &self,
        control: Group,
        (number, bytes): (u64, usize),
        part: Part,
        patience: Duration,
    ) -> Result<Arc<Side>> {
        let (inner, until) = (&self.0.inner, Deadline::after(patience));
        let met = inner.device.stream().map_err(Lack::of).and_then(|stream| {
            let (lookout, library) = (&inner.lookout, inner.comm().library());
            Ok((meet(&control, lookout, library, &inner.device, until)?, stream))
        });
        let undo = |(comm, _): (Arc<Comm>, _)| give_up(&inner.device, [&comm]);
        let (comm, stream) =
            agreed((&control, until), "a communicator for symmetric memory", met, undo)?;
        let (window, known, calls) = Default::default();
        let mut estate = Box::new(Estate { comm, window, known, stream, calls, part });
        let surveyed = inner.survey(&control, &mut estate, until);
        let call = "a window of symmetric memory";
        let (own, near) = match agreed((&control, until), call, surveyed, drop) {
            Ok(surveyed) => surveyed,
            Err(error) => {
                estate.abandon();
                return Err(error);
            }
        };
        let (keeper, told) = match Keeper::start(control) {
            Ok(started) => started,
            Err(error) => {
                estate.abandon();
                return Err(
                    inner.give_up(format!("there is no thread for symmetric memory: {error}"))
                );
            }
        };
        // It makes collective calls faster, and nothing else depends on it.
        let known = on_device(&inner.device, || inner.comm().register(estate.part.memory()));
        estate.calls = Some(inner.stream.clone());
        estate.known = known.inspect_err(|error| tracing::debug!("{error}")).ok();
        let counters = || (0..inner.world).map(|_| Mutex::new(0)).collect();
        let (engine, sent, taken) = (inner.clone(), counters(), counters());
        let (stage, estate) = (Mutex::new(()), Some(estate));
        let side = Side { engine, keeper, estate, number, bytes, own, near, sent, taken, stage };
        let side = Arc::new(side);
        inner.remember(&side, told);
        Ok(side)
    }
}

impl Inner {
    /// Makes a rank's part zero, and known to all ranks. Says where it is, and where on this device those of the others
    /// are.
    ///
    /// # Errors
    /// When NCCL cannot, in words.
    fn survey(
        &self,
        control: &Group,
        estate: &mut Estate,
        until: Deadline,
    ) -> Result<(Block, Vec<Option<Block>>), Lack> {
        let (comm, memory) = (&estate.comm, estate.part.memory());
        let nowhere = || Lack::of("NCCL has given memory that is nowhere");
        let start = NonNull::new(memory.as_ptr()).ok_or_else(nowhere)?;
        let own = Block::new(start, memory.len());
        self.clear(comm, own, until).map_err(Lack::Own)?;
        let options = WindowOptions { symmetric: true, strict_ordering: false };
        let open = || comm.window(memory, options);
        let window = watched_with(control, &self.lookout, until, || on_device(&self.device, open));
        let window = window.map_err(|error| Lack::in_time(&error, until))?;
        let window = estate.window.insert(window);
        let near = |rank| -> nccl::Result<Option<Block>> {
            let start = NonNull::new(comm.peer_pointer(window, rank, 0)?);
            Ok(start.map(|start| Block::new(start, memory.len())))
        };
        let near = on_device(&self.device, || (0..self.world as u32).map(near).collect());
        Ok((own, near.map_err(Lack::of)?))
    }

    /// Makes memory zero.
    fn clear(&self, comm: &Comm, own: Block, until: Deadline) -> Result<(), String> {
        let until = until.into();
        let is_for_all = false;
        let wait = Wait { call: &CALL, number: 0, is_for_all, until, began: Instant::now() };
        let cleared = self.device.clear(own).and_then(|()| Event::of_default(&self.device));
        let cleared = cleared.map_err(|error| error.to_string())?;
        self.watch(comm, &cleared, &wait).map_err(|error| error.to_string())
    }

    /// Has the group's end be that of its memory, too, and forgets what has ended.
    fn remember(&self, side: &Arc<Side>, keeper: Receiver<()>) {
        let mut sides = lock(&self.sides);
        sides.retain(|side| side.strong_count() > 0);
        sides.push(Arc::downgrade(side));
        drop(sides);
        let mut keepers = lock(&self.keepers);
        keepers.retain(|keeper| keeper.try_recv() != Err(TryRecvError::Disconnected));
        keepers.push(keeper);
    }
}

/// What the program calls.
const CALL: &str = "symmetric_on";
/// What the ranks call themselves when they tell each other things. A program does not use such names.
const NAME: &str = "(symmetric)";
/// What a version has to have.
const NEEDED: [Feature; 4] =
    [Feature::Memory, Feature::Window, Feature::OneSided, Feature::PeerPointers];
/// Room for what NCCL is to put, and does not know: it goes there first, in pieces of so many bytes.
pub(super) const STAGE: usize = 1 << 20;
/// Where the room begins, and windows do.
const PAGE: usize = 4096;
