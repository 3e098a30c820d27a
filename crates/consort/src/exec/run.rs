//! A call on its way.

use std::sync::Arc;

use consort_sys::record::Stopwatch;
use consort_sys::reduce::Kernel;
use consort_sys::view::Target;

use super::cache::{Cache, Key};
use super::choice::Choices;
use super::links::Links;
use super::memory::Plot;
use super::plan::Plan;
use super::script::Script;
use super::streams::Streams;
use super::track::{Kernels, Scene, Track};
use crate::call::Call;
use crate::error::Result;

/// A call on its way: goes on whenever it is asked to, and never waits.
#[derive(Debug)]
pub(crate) struct Run<'a>(Way<'a>);

#[derive(Debug)]
enum Way<'a> {
    Scripted(Box<Scripted<'a>>),
    Streams(Streams<'a>),
}

/// What has become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has ended.
    Done,
    /// It has gone on, and now waits for others.
    Moved,
    /// It waits for others as it did before.
    Stuck,
}

impl<'a> Run<'a> {
    /// Prepares a call that was checked, of this rank among as many as there are in `choices`.
    ///
    /// # Errors
    /// When the dtype does not have the operation.
    pub(crate) fn new(
        call: &Call<'a>,
        me: usize,
        choices: &Choices,
        cache: &mut Cache,
    ) -> Result<Self> {
        let world = choices.layout().world() as usize;
        Ok(Self(match Plan::new(call, me, choices) {
            Some(plan) => Way::Scripted(Box::new(Scripted::new(plan, me, choices, cache)?)),
            None => Way::Streams(Streams::new(call, me, world)),
        }))
    }

    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// Those of the links. There is no going on after one.
    pub(crate) fn go_on<L: Links + ?Sized>(&mut self, links: &mut L) -> Result<Progress> {
        let mut has_moved = false;
        loop {
            links.look_again();
            let (is_done, moved) = match &mut self.0 {
                Way::Scripted(scripted) => scripted.go_on(links)?,
                Way::Streams(streams) => streams.go_on(links)?,
            };
            if is_done {
                return Ok(Progress::Done);
            }
            if !moved && !links.make_way()? {
                return Ok(if has_moved { Progress::Moved } else { Progress::Stuck });
            }
            has_moved = true;
        }
    }

    /// The ranks from whom or to whom something is outstanding, in order.
    pub(crate) fn awaits(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = match &self.0 {
            Way::Scripted(scripted) => {
                scripted.tracks.iter().flat_map(|it| it.awaits(&scripted.script)).collect()
            }
            Way::Streams(streams) => streams.awaits().collect(),
        };
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Ends the call, and leaves what the next one can use. Says for how long it has combined numbers, by
    /// a stopwatch.
    pub(crate) fn end(self, cache: &mut Cache) -> u64 {
        let Way::Scripted(scripted) = self.0 else { return 0 };
        cache.give_back(scripted.memory);
        scripted.watch.take()
    }
}

#[derive(Debug)]
struct Scripted<'a> {
    plan: Plan<'a>,
    script: Arc<Script>,
    kernels: Option<Kernels>,
    plot: Plot,
    tracks: Vec<Track>,
    /// The scratch of all tracks.
    memory: Vec<u8>,
    watch: Stopwatch,
}

impl<'a> Scripted<'a> {
    fn new(plan: Plan<'a>, me: usize, choices: &Choices, cache: &mut Cache) -> Result<Self> {
        let layout = choices.layout();
        let world = layout.world() as usize;
        let key = Key { recipe: plan.recipe, me, world };
        let script = cache.script(key, || plan.recipe.script(me as u32, layout));
        let kernels = match plan.numbers {
            Some((dtype, op)) => Some(Kernels {
                all: Kernel::new(dtype, op, world)?.dividing_by(choices.divisor(dtype)),
                pair: Kernel::new(dtype, op, 2)?,
            }),
            None => None,
        };
        let plot = Plot::new(&script, &plan.buffers, plan.cut);
        let tracks: Vec<Track> = (0..plan.cut.segments.min(TRACKS)).map(Track::new).collect();
        let memory = cache.take_memory(tracks.len() * plot.len);
        Ok(Self { plan, script, kernels, plot, tracks, memory, watch: Stopwatch::default() })
    }

    /// Whether it has ended, and whether it went anywhere.
    fn go_on<L: Links + ?Sized>(&mut self, links: &mut L) -> Result<(bool, bool)> {
        let Plan { buffers, cut, .. } = self.plan;
        let (script, plot) = (&*self.script, &self.plot);
        let tracks = self.tracks.len();
        let (kernels, watch) = (self.kernels, &self.watch);
        let scene = Scene { script, buffers, plot, cut, tracks, kernels, watch };
        let memory = Target::from(&mut self.memory[..]);
        let (mut is_done, mut has_moved) = (true, false);
        for (number, track) in self.tracks.iter_mut().enumerate() {
            let scratch = memory.slice(number * plot.len..(number + 1) * plot.len);
            has_moved |= track.go_on(&scene, scratch, links)?;
            is_done &= track.is_done(&scene);
        }
        Ok((is_done, has_moved))
    }
}

/// How many segments are under way at once.
const TRACKS: usize = 4;
