//! How communicators are made, and waited for.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::code::Code;
use super::comm::Inner;
use super::config::{Config, Image};
use super::error::{Error, Result};
use super::feature::Feature;
use super::gate::{Fate, Gate};
use super::library::Library;
use super::table::Handle;
use super::watch::why_give_up;

/// How a communicator does its work.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) is_blocking: bool,
    /// How long a call may be in progress.
    pub(super) limit: Duration,
    /// What it was made with: NCCL may look at its texts.
    _image: Option<Image>,
}

impl Manner {
    /// As a configuration says, and what was made of it for NCCL.
    pub(super) fn new(config: &Config, image: Option<Image>) -> Self {
        let is_blocking = image.is_none() || config.is_blocking() == Some(true);
        Self { is_blocking, limit: config.limit(), _image: image }
    }

    /// As that of another.
    pub(super) fn like(inner: &Inner) -> Self {
        Self { is_blocking: inner.is_blocking(), limit: inner.limit(), _image: None }
    }
}

/// Who makes a communicator, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) function: &'static str,
    pub(super) library: Library,
    pub(super) world: i32,
    pub(super) rank: i32,
}

impl Seat {
    /// Checks that there is such a rank.
    pub(super) fn new(
        function: &'static str,
        library: Library,
        world: u32,
        rank: u32,
    ) -> Result<Self> {
        let numbers = i32::try_from(world).ok().zip(i32::try_from(rank).ok());
        match numbers {
            Some((world, rank)) if rank < world => Ok(Self { function, library, world, rank }),
            _ => Err(Error::argument(
                function,
                format!(
                    "rank {rank} of {world}: ranks are 0 up to the number of ranks, which is below 2³¹"
                ),
            )),
        }
    }

    pub(super) fn place(&self) -> (u32, u32) {
        (self.rank as u32, self.world as u32)
    }

    /// Takes NCCL's word for the rank and the number of ranks.
    pub(super) fn check(&mut self, handle: &Handle) -> Result<()> {
        let place = Some(self.place());
        let (_, world) = self.library.succeed("ncclCommCount", handle.count(), place)?;
        let (_, rank) = self.library.succeed("ncclCommUserRank", handle.user_rank(), place)?;
        if rank < 0 || rank >= world {
            let reason = format!("NCCL says that this is rank {rank} of {world}");
            return Err(Error::argument(self.function, reason));
        }
        (self.world, self.rank) = (world, rank);
        Ok(())
    }

    /// What to say when NCCL succeeds and makes nothing.
    pub(super) fn nothing(&self) -> Error {
        Error::argument(self.function, "NCCL said that it had a communicator, and gave none")
    }
}

/// The configuration of a communicator that is made anew: not blocking unless it says so; none if the version has
/// none and nothing was said.
pub(super) fn image(library: Library, config: &Config) -> Result<Option<Image>> {
    match library.has(Feature::NonBlocking) || config.says_something() {
        true => needed_image(library, config).map(Some),
        false => Ok(None),
    }
}

/// As [`image`], where there has to be one.
pub(super) fn needed_image(library: Library, config: &Config) -> Result<Image> {
    let is_blocking = config.is_blocking().unwrap_or(false);
    Image::new(&config.clone().blocking(is_blocking), library.version())
}

/// Waits until a communicator has nothing in progress, its gate is closed, or whoever [watches](super::watch) gives up.
pub(super) fn settle(
    at: &Seat,
    handle: &Handle,
    gate: Option<&Arc<Gate>>,
    limit: Duration,
) -> Result<()> {
    let (began, mut pause, mut looks) = (Instant::now(), PAUSES.0, 0);
    let place = at.place();
    loop {
        let answer = handle.async_error();
        let (_, state) = match answer {
            // A library so old never has anything in progress.
            Err(_) => return Ok(()),
            answer => at.library.succeed(at.function, answer, Some(place))?,
        };
        match state {
            Code::SUCCESS => return Ok(()),
            Code::IN_PROGRESS => {}
            code => return Err(at.library.failure(at.function, code, Some(handle), Some(place))),
        }
        if gate.is_some_and(|gate| gate.is_closed()) {
            let fate = Fate::Aborted.word();
            return Err(Error::Ended { function: at.function, rank: place.0, fate });
        }
        if looks >= YIELDS
            && let Some(reason) = why_give_up()
        {
            return Err(Error::GivenUp { function: at.function, rank: place.0, reason });
        }
        let waited = began.elapsed();
        if waited >= limit {
            return Err(Error::Deadline {
                function: at.function,
                rank: place.0,
                world: place.1,
                waited,
            });
        }
        looks += 1;
        if looks <= YIELDS {
            thread::yield_now();
        } else {
            thread::sleep(pause.min(limit - waited));
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

/// So often the state is looked at without sleeping.
const YIELDS: u32 = 64;
/// How long to sleep between looks, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));
