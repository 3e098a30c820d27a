//! A block of symmetric memory: how it is made by all ranks together, and how it ends.

use std::sync::Arc;

use consort_sys::arena::{ArenaError, Piece};
use consort_sys::dtype::Dtype;
use consort_sys::window::{Place, Shape, Windows};

use super::rendezvous::{Card, Kind, Trouble, digest, exchange};
use crate::engine::{Cause, Neighbour};
use crate::error::{Error, Result};
use crate::group::{Group, Job};

/// What a rank asks for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) kind: Kind,
    /// Under which it is kept.
    pub(super) id: Option<&'a str>,
    /// What it is to hold; bytes, if that is not known.
    pub(super) dtype: Option<Dtype>,
    /// How many elements.
    pub(super) len: usize,
    pub(super) channels: usize,
}

/// Memory that every rank has given, and this rank uses.
#[derive(Debug)]
pub(super) struct Block {
    /// The number of the request that it was made for.
    number: u64,
    dtype: Option<Dtype>,
    held: Option<Held>,
    job: Arc<Job>,
}

/// The memory, without those who use it.
#[derive(Debug)]
pub(crate) struct Held {
    control: Piece,
    data: Piece,
    /// Shared with the windows that are [kept](super::Kept), each of which keeps the block as well.
    windows: Arc<Windows>,
    /// Those who have the windows in common.
    neighbours: Arc<[Neighbour]>,
}

impl Wanted<'_> {
    /// The shape of the windows in a group of so many ranks; `None` if it is impossible.
    pub(super) fn shape(&self, world: usize) -> Option<Shape> {
        let bytes = self.len.checked_mul(self.dtype.map_or(1, Dtype::size))?;
        let shape = Shape { world, channels: self.channels, bytes };
        (bytes <= isize::MAX as usize && world <= Shape::MOST_RANKS).then_some(shape)
    }

    /// What this rank says of it to the others.
    pub(super) fn card(&self, number: u64) -> Card {
        Card {
            kind: self.kind,
            number,
            id: self.id.map_or(0, digest),
            dtype: self.dtype,
            len: self.len as u64,
            channels: self.channels as u64,
            since: 0,
            trouble: None,
            places: [0; 2],
        }
    }
}

impl Block {
    /// Makes a block together with the other ranks; or finds that all of them have kept it.
    ///
    /// # Errors
    /// When ranks differ, or one cannot have it: on all of them.
    pub(super) fn meet(
        group: &Group,
        number: u64,
        wanted: &Wanted<'_>,
        kept: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>> {
        let shape = wanted.shape(group.world());
        let mut card = wanted.card(number);
        let mut reason = None;
        let mut refuse = |card: &mut Card, trouble, error| {
            card.trouble = Some(trouble);
            reason = Some(error);
        };
        let mut taken = None;
        match (kept, shape) {
            (Some(kept), _) => {
                card.since = kept.number;
                if let Err((trouble, error)) = kept.is_fit(wanted, shape) {
                    refuse(&mut card, trouble, error);
                }
            }
            (None, None) => refuse(&mut card, Trouble::Impossible, impossible(wanted)),
            (None, Some(shape)) => match Pieces::take(group, shape) {
                Ok(pieces) => {
                    card.places = pieces.offsets();
                    taken = Some((pieces, shape));
                }
                Err(error) => refuse(&mut card, Trouble::NoMemory, error),
            },
        }
        let cards = match exchange(group, &card, reason) {
            Ok(cards) => cards,
            Err(error) => {
                if let Some((pieces, _)) = taken {
                    pieces.leave_after(&error);
                }
                return Err(error);
            }
        };
        match (kept, taken) {
            (Some(kept), _) => Ok(kept.clone()),
            (None, Some((pieces, shape))) => {
                let windows = Arc::new(pieces.open(group, shape, &cards)?);
                let Pieces { control, data } = pieces;
                let neighbours = group.commons()?.neighbours().clone();
                let held = Some(Held { control, data, windows, neighbours });
                let job = group.shared.job.clone();
                Ok(Arc::new(Self { number, dtype: wanted.dtype, held, job }))
            }
            (None, None) => unreachable!("who has taken nothing was refused"),
        }
    }

    /// The number of the request that it was made for.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn windows(&self) -> &Arc<Windows> {
        &self.held.as_ref().expect("it is taken out only when the block ends").windows
    }

    pub(super) fn windows_mut(&mut self) -> &mut Windows {
        self.held.as_mut().expect("it is taken out only when the block ends").windows_mut()
    }

    /// Whether it is what is wanted, and nobody uses it.
    fn is_fit(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        shape: Option<Shape>,
    ) -> Result<(), (Trouble, Error)> {
        let id = wanted.id.unwrap_or_default();
        let Shape { bytes, channels, .. } = self.windows().shape();
        if Some(self.windows().shape()) != shape || self.dtype != wanted.dtype {
            let dtype = self.dtype.map_or("bytes", Dtype::name);
            let len = bytes / self.dtype.map_or(1, Dtype::size);
            let what = format!(
                "symmetric memory {id:?} is kept as {len} {dtype} with {channels} channels: ask \
                 for that, or release it first"
            );
            return Err((Trouble::KeptOtherwise, Error::Argument(what)));
        }
        // One is kept by the group.
        if Arc::strong_count(self) > 1 {
            let what = format!("symmetric memory {id:?} is in use: drop its handle first");
            return Err((Trouble::InUse, Error::Argument(what)));
        }
        Ok(())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        // A forked child has nothing to give back.
        if let Ok(neighbourhood) = self.job.neighbourhood() {
            held.windows_mut().leave();
            neighbourhood.take_back_windows(held);
        }
    }
}

impl Held {
    /// Of a block that nobody uses.
    fn windows_mut(&mut self) -> &mut Windows {
        Arc::get_mut(&mut self.windows).expect("whoever keeps a window keeps its block longer")
    }

    /// Whether every rank has left, or its process has ended: only then may it be used for something
    /// else.
    pub(crate) fn is_deserted(&self) -> bool {
        self.windows.is_deserted(|rank| self.neighbours[rank].has_ended())
    }

    /// Leaves it as it is for those who still use it.
    pub(crate) fn abandon(self) {
        self.control.abandon();
        self.data.abandon();
    }
}

/// What this rank gives.
#[derive(Debug)]
struct Pieces {
    control: Piece,
    data: Piece,
}

impl Pieces {
    fn take(group: &Group, shape: Shape) -> Result<Self> {
        let neighbourhood = group.shared.job.neighbourhood()?;
        let size = neighbourhood.arena().size();
        let control = shape.control_bytes().filter(|&bytes| bytes <= size);
        let longest = ArenaError::NoRoom { asked: usize::MAX, longest: size, size };
        let control = neighbourhood.take_piece(control.ok_or(longest)?)?;
        let data = neighbourhood.take_piece(shape.bytes)?;
        Ok(Self { control, data })
    }

    /// When nothing came of it. What all ranks have refused nobody uses; otherwise others may have seen
    /// everyone's cards, and write into what is here.
    fn leave_after(self, error: &Error) {
        if !matches!(error, Error::Asymmetric { .. } | Error::Memory(_) | Error::Argument(_)) {
            self.control.abandon();
            self.data.abandon();
        }
    }

    fn offsets(&self) -> [u64; 2] {
        [self.control.offset() as u64, self.data.offset() as u64]
    }

    /// Everyone's windows, where their cards say.
    fn open(&self, group: &Group, shape: Shape, cards: &[Card]) -> Result<Windows> {
        let commons = group.commons()?;
        let place = |(rank, card): (usize, &Card)| Place {
            arena: commons.neighbours()[rank].arena.clone(),
            control: card.places[0] as usize,
            data: card.places[1] as usize,
        };
        let places: Vec<Place> = cards.iter().enumerate().map(place).collect();
        if shape.bytes * places.len() <= READY {
            // So that the first to touch a peer's window does not pay for it; if it does not work,
            // they pay.
            for place in &places {
                let _ = place.arena.populate(place.data, shape.bytes);
            }
        }
        let patience = group.shared.job.neighbourhood()?.patience();
        let strays = |place: &Place| place.arena.view(place.data, shape.bytes).is_none();
        let rank = places.iter().position(strays).unwrap_or(0) as u32;
        Windows::new(group.rank().index(), shape, places, patience).ok_or_else(|| {
            let what = "it speaks of symmetric memory that is not within its own".to_owned();
            commons.lookout().decide(Cause::Damaged { rank, what })
        })
    }
}

fn impossible(wanted: &Wanted<'_>) -> Error {
    let Wanted { dtype, len, .. } = wanted;
    let dtype = dtype.map_or("bytes", Dtype::name);
    Error::Argument(format!("{len} {dtype} are more than can be addressed"))
}

/// Up to so many bytes of all ranks together are made ready on every rank beforehand: it takes time
/// for each page and each rank, and who works on large windows touches a part of each.
const READY: usize = 64 << 20;
