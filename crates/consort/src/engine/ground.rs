//! The buffers that ranks publish their data in.

use consort_sys::arena::{Arena, ArenaError, Piece};
use consort_sys::reach::Reach;
use consort_sys::record::Stopwatch;
use consort_sys::view::{Source, Target};

/// Every rank's staging buffers: one for every step that it may be ahead of another, and a few
/// larger *stages* for operations whose ranks keep step with each other. The fewer of them are in
/// use, the more of what goes through them stays in the processors' caches.
#[derive(Debug)]
pub(super) struct Ground {
    me: usize,
    mine: Piece,
    committed: bool,
    places: Vec<(Arena, usize)>,
    reaches: Vec<Option<Reach>>,
    /// Whether all ranks can reach each other's private memory.
    reachable: bool,
    /// How long numbers are combined.
    watch: Stopwatch,
}

impl Ground {
    /// How many buffers there are: so many steps, less the lag, a rank may be ahead of another that
    /// reads them.
    pub(super) const BUFFERS: u32 = 8;
    /// How many bytes a buffer has.
    pub(super) const BUFFER: usize = 128 << 10;
    /// How many bytes a stage has.
    pub(super) const STAGE: usize = 128 << 10;
    /// How many stages there are, used in turn.
    pub(super) const STAGES: u32 = 3;
    /// How many bytes of its arena each rank sets aside.
    pub(super) const BYTES: usize =
        Self::BUFFER * Self::BUFFERS as usize + Self::STAGE * Self::STAGES as usize;

    /// `None` if one of the places is not in its arena.
    pub(super) fn new(
        me: usize,
        mine: Piece,
        places: Vec<(Arena, usize)>,
        reaches: Vec<Option<Reach>>,
    ) -> Option<Self> {
        let inside = |(arena, offset): &(Arena, usize)| arena.view(*offset, Self::BYTES).is_some();
        // All of them can, or none has tried.
        let reachable = reaches.iter().any(Option::is_some);
        let watch = Stopwatch::default();
        let ground = Self { me, mine, committed: false, places, reaches, reachable, watch };
        ground.places.iter().all(inside).then_some(ground)
    }

    pub(super) fn world(&self) -> usize {
        self.places.len()
    }

    pub(super) fn me(&self) -> usize {
        self.me
    }

    /// A rank's memory.
    pub(super) fn arena(&self, rank: usize) -> &Arena {
        &self.places[rank].0
    }

    /// A rank's private memory, if it can be reached.
    pub(super) fn reach(&self, rank: usize) -> Option<Reach> {
        self.reaches[rank]
    }

    /// For those who combine numbers.
    #[inline]
    pub(super) fn watch(&self) -> &Stopwatch {
        &self.watch
    }

    /// Whether all ranks can reach each other's private memory.
    #[inline]
    pub(super) fn is_reachable(&self) -> bool {
        self.reachable
    }

    /// Makes sure that there is memory behind this rank's buffers: many groups never need any.
    #[inline]
    pub(super) fn commit(&mut self) -> Result<(), ArenaError> {
        if !self.committed {
            self.mine.commit()?;
            self.committed = true;
        }
        Ok(())
    }

    /// Leaves this rank's buffers as they are for those who still read them.
    pub(super) fn abandon(self) {
        self.mine.abandon();
    }

    /// This rank's buffer for a step.
    #[inline]
    pub(super) fn mine(&self, step: u32) -> Target<'_> {
        self.buffer(self.me, step)
    }

    /// What a rank has published in its buffer for a step.
    #[inline]
    pub(super) fn theirs(&self, rank: usize, step: u32) -> Source<'_> {
        self.buffer(rank, step).into()
    }

    /// The stage that comes so many after another one. Stages are used in turn for ever: a count of
    /// all that were ever used would lose its place when it begins anew, being no power of two.
    #[inline]
    pub(super) fn stage_after(stage: u32, count: u32) -> u32 {
        (stage + count % Self::STAGES) % Self::STAGES
    }

    /// A rank's stage.
    #[inline]
    pub(super) fn stage(&self, rank: usize, stage: u32) -> Target<'_> {
        let (arena, offset) = &self.places[rank];
        let buffers = Self::BUFFER * Self::BUFFERS as usize;
        let offset = offset + buffers + stage as usize * Self::STAGE;
        arena.view(offset, Self::STAGE).expect("all places were checked")
    }

    #[inline]
    fn buffer(&self, rank: usize, step: u32) -> Target<'_> {
        let (arena, offset) = &self.places[rank];
        let offset = offset + (step % Self::BUFFERS) as usize * Self::BUFFER;
        arena.view(offset, Self::BUFFER).expect("all places were checked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_however_many_were_used() {
        for stage in 0..Ground::STAGES {
            for count in [0, 1, 2, 3, u32::MAX - 1, u32::MAX] {
                let after = Ground::stage_after(stage, count);
                let one_by_one = (u64::from(stage) + u64::from(count)) % u64::from(Ground::STAGES);
                assert_eq!(u64::from(after), one_by_one);
            }
        }
    }
}
