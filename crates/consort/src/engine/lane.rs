//! A group's way through shared memory, for one call at a time.

use std::sync::Arc;
use std::time::Duration;

use consort_sys::arena::{Arena, ArenaError, Piece};
use consort_sys::board::{Board, Entry};
use consort_sys::life::{Life, Sign};
use consort_sys::parting::Parting;
use consort_sys::reach::{Reach, Unread};
use consort_sys::ring::Rings;
use consort_sys::wait::Patience;

use super::company::Peers;
use super::drive::{Drive, GoOn, Progress, Turns};
use super::ground::Ground;
use super::lookout::{Lookout, Stakes, Stuck};
use super::ops::Place as Window;
use super::pace::{Notes, Pace, wait_once};
use super::patient::Patient;
use super::post::Post;
use super::queue::Queue;
use super::verdict::Cause;
use crate::backend::Terms;
use crate::call::{Call, Description};
use crate::error::{Error, Result};

/// A rank of the group, as its host knows it.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    /// Its rank in the world.
    pub(crate) rank: u32,
    /// Its shared memory.
    pub(crate) arena: Arena,
    /// What it leaves when it ends.
    parting: Parting,
    /// Whether its process is alive; `None` for this one.
    pub(crate) life: Option<Arc<Life>>,
    /// Its private memory; `None` for this one, and for all if not all ranks of the host can reach
    /// each other's.
    pub(crate) reach: Option<Reach>,
}

impl Neighbour {
    /// The one of this rank in the world, who has this shared memory, and its [`Parting`] there.
    pub(crate) fn new(rank: u32, arena: Arena, life: Option<Arc<Life>>) -> Self {
        let parting = Parting::of(&arena);
        Self { rank, arena, parting, life, reach: None }
    }

    /// Whether its process has ended, and not in good order.
    pub(crate) fn is_dead(&self) -> bool {
        self.has_ended() && !self.parting.has_taken_leave()
    }

    /// Whether its process has ended, for certain and in whatever order: then it uses no memory.
    pub(crate) fn has_ended(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.sign() == Sign::Ended)
    }

    /// What it leaves when it ends.
    pub(crate) fn parting(&self) -> &Parting {
        &self.parting
    }
}

/// What a rank sets aside in its arena for a group, and tells the others of.
#[derive(Debug)]
pub(crate) struct Place {
    board: Piece,
    ground: Piece,
    post: Piece,
}

impl Place {
    /// Takes it, for at most so many ranks. The buffers get their memory when they are first
    /// needed.
    ///
    /// # Errors
    /// When there is no memory left.
    pub(crate) fn take(arena: &Arena, ranks: usize) -> Result<Self> {
        let board = arena.alloc(Board::BYTES, Board::BYTES)?;
        let ground = arena.reserve(Ground::BYTES, Board::BYTES)?;
        let post = arena.alloc(Post::block_bytes(ranks), Board::BYTES)?;
        Ok(Self { board, ground, post })
    }

    /// Leaves it to those who may still use it.
    pub(crate) fn abandon(self) {
        [self.board, self.ground, self.post].into_iter().for_each(Piece::abandon);
    }

    /// Where it is in the arena.
    pub(crate) fn offsets(&self) -> [u64; 3] {
        [&self.board, &self.ground, &self.post].map(|piece| piece.offset() as u64)
    }
}

/// The lane.
#[derive(Debug)]
pub(crate) struct Lane {
    me: usize,
    neighbours: Arc<[Neighbour]>,
    lookout: Lookout,
    board: Board,
    ground: Ground,
    board_piece: Piece,
    post: Arc<Post>,
    /// The last step of the last call.
    step: u32,
    /// The stage that is used next.
    stage: u32,
    /// How many calls there were.
    number: u64,
    /// A digest of all of them.
    digest: u64,
}

impl Lane {
    /// For a group whose ranks have set these places aside.
    ///
    /// # Errors
    /// When a place is not in its rank's arena, or there are too many.
    pub(crate) fn new(
        name: &str,
        me: usize,
        neighbours: Vec<Neighbour>,
        mine: Place,
        offsets: &[[u64; 3]],
        patience: Patience,
    ) -> Result<Self> {
        Self::with(me, neighbours, mine, offsets, patience, |peers, block, rings| {
            let lookout = Lookout::new(name, peers);
            let post = Post::new(lookout.clone(), block, rings, patience);
            (lookout, post)
        })
    }

    /// For the ranks of a group that are on this host, who have set these places aside. `make`
    /// knows how they look out for each other, and how messages go.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn with(
        me: usize,
        neighbours: Vec<Neighbour>,
        mine: Place,
        offsets: &[[u64; 3]],
        patience: Patience,
        make: impl FnOnce(Peers, Piece, Rings) -> (Lookout, Post),
    ) -> Result<Self> {
        if neighbours.len() > MOST {
            let ranks = neighbours.len();
            let what = format!("{ranks} ranks are too many for a group on one host: {MOST} can be");
            return Err(Error::Argument(what));
        }
        let places = |which: usize| -> Vec<(Arena, usize)> {
            let pairs = neighbours.iter().zip(offsets);
            pairs.map(|(it, offsets)| (it.arena.clone(), offsets[which] as usize)).collect()
        };
        let outside = || Error::Argument("a rank's place is not in its memory".to_owned());
        let board = Board::new(me, &places(0), patience).ok_or_else(outside)?;
        let reaches: Vec<_> = neighbours.iter().map(|neighbour| neighbour.reach).collect();
        let rings = Rings::new(me, &places(2), &reaches).ok_or_else(outside)?;
        let ground = Ground::new(me, mine.ground, places(1), reaches).ok_or_else(outside)?;
        let neighbours: Arc<[Neighbour]> = neighbours.into();
        let peers = Peers::Here {
            me,
            alarm: board.alarm(),
            bells: rings.bells.clone().into(),
            neighbours: neighbours.clone(),
        };
        let (lookout, post) = make(peers, mine.post, rings);
        Ok(Self {
            me,
            neighbours,
            lookout,
            board,
            ground,
            board_piece: mine.board,
            post: Arc::new(post),
            step: 0,
            stage: 0,
            number: 0,
            digest: 0,
        })
    }

    pub(super) fn me(&self) -> usize {
        self.me
    }

    pub(super) fn world(&self) -> usize {
        self.neighbours.len()
    }

    /// The ranks, all on this host.
    pub(crate) fn neighbours(&self) -> &Arc<[Neighbour]> {
        &self.neighbours
    }

    /// Whether all ranks can reach each other's private memory.
    #[inline]
    pub(super) fn is_reachable(&self) -> bool {
        self.ground.is_reachable()
    }

    /// The group's messages, which need no turn.
    pub(crate) fn post(&self) -> &Arc<Post> {
        &self.post
    }

    /// For those who wait for other ranks without a call, or want to know or decide meanwhile what
    /// becomes of the group.
    pub(crate) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// Carries out a checked call on this thread, for which others may wait in line. Says which of
    /// the group's calls it was.
    #[inline]
    pub(crate) fn run(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        line: Option<&Queue>,
    ) -> Result<u64> {
        self.make_ready()?;
        let (window, description) = self.begin(call, terms);
        let mut patient = Patient::new(Pace::Here(terms.timeout, line), description);
        let done = super::ops::run(self, call, window, &mut patient);
        let combined = self.take_combined();
        self.lookout.diary().end(self.number, &description, done.is_ok(), combined);
        done.map(|()| self.number)
    }

    /// Carries out a checked call, and lets its thread do something else when it has to wait.
    pub(crate) async fn run_elsewhere(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        notes: &Notes,
    ) -> Result<()> {
        self.make_ready()?;
        let (window, description) = self.begin(call, terms);
        let mut patient = Patient::new(Pace::Elsewhere(notes), description);
        let done = super::ops::run_elsewhere(self, call, window, &mut patient).await;
        let combined = self.take_combined();
        self.lookout.diary().end(self.number, &description, done.is_ok(), combined);
        done
    }

    /// For how long numbers were combined since this was last asked, by a stopwatch.
    #[inline]
    pub(super) fn take_combined(&self) -> u64 {
        self.ground.watch().take()
    }

    /// Carries out a part of a call that was [counted](Self::count), at the patient's pace.
    pub(super) async fn run_part(
        &mut self,
        part: &Call<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        super::ops::run_elsewhere(self, part, None, patient).await
    }

    #[inline]
    fn make_ready(&mut self) -> Result<()> {
        // A rank that need not wait, or comes late, would not hear of it otherwise.
        if self.board.is_halted() {
            return Err(self.lookout.ended());
        }
        Ok(())
    }

    /// Ends the group because there is no memory for this rank's buffers.
    #[cold]
    fn give_out(&self, error: &ArenaError) -> Error {
        let reason = format!("it has no memory for its buffers: {error}");
        self.lookout.decide(Cause::Unable { reason })
    }

    /// Counts a call, and finds where in this rank's arena its memory lies, if it is to be worked on
    /// there.
    #[inline]
    pub(super) fn begin(&mut self, call: &Call<'_>, terms: Terms) -> (Option<Window>, Description) {
        // Ranks have to agree on it even where it makes no difference: it would for more data.
        let arena = &self.neighbours[self.me].arena;
        let place = Window::of(call, arena, self.world(), terms.in_windows);
        let within = Window::within(place, call, arena);
        let window = place.filter(|place| terms.in_windows || place.is_worth_it());
        let description =
            Description::of(call, self.world(), within).made_for(terms.purpose, terms.sizes);
        self.count(&description);
        self.lookout.diary().begin(self.number, &description, terms.site);
        (window, description)
    }

    /// Counts a call.
    #[inline]
    pub(super) fn count(&mut self, description: &Description) {
        let call = description.pack();
        self.number += 1;
        self.digest = description.digest(self.digest);
        self.board.note(&Entry { number: self.number, digest: self.digest, call });
    }

    /// How many calls there were, and a digest of them.
    pub(super) fn tally(&self) -> (u64, u64) {
        (self.number, self.digest)
    }

    /// An operation before its first turn.
    ///
    /// # Errors
    /// When there is no memory for this rank's buffers: the group ends.
    #[inline]
    pub(super) fn prepare<T: Turns>(&mut self, turns: T) -> Result<Drive<T>> {
        if (turns.uses_buffers() || turns.stages() > 0)
            && let Err(error) = self.ground.commit()
        {
            return Err(self.give_out(&error));
        }
        let first = self.step.wrapping_add(1);
        let first_stage = self.stage;
        self.step = self.step.wrapping_add(turns.posts());
        self.stage = Ground::stage_after(self.stage, turns.stages());
        Ok(Drive::new(turns, first, first_stage, self.digest))
    }

    /// Takes all turns of an operation on the spot.
    #[inline]
    pub(super) fn drive(&mut self, turns: impl Turns, patient: &mut Patient<'_>) -> Result<()> {
        let mut drive = self.prepare(turns)?;
        loop {
            match drive.go_on(&mut self.board, &self.ground) {
                Progress::Blocked { rank, step } => self.wait(rank, step, patient)?,
                Progress::Suspects { rank } => self.look_into(rank)?,
                end => return self.end(end, patient),
            }
        }
    }

    /// Takes all turns of an operation at the patient's pace.
    pub(super) async fn go_on(
        &mut self,
        mut drive: impl GoOn,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        loop {
            match (drive.go_on(&mut self.board, &self.ground), patient.pace) {
                (Progress::Blocked { rank, step }, Pace::Here(..)) => {
                    self.wait(rank, step, patient)?;
                }
                (Progress::Blocked { rank, step }, Pace::Elsewhere(notes)) => {
                    self.wait_elsewhere(rank, step, notes, patient).await?;
                }
                (Progress::Suspects { rank }, _) => self.look_into(rank)?,
                (end, _) => return self.end(end, patient),
            }
        }
    }

    /// What came of an operation that goes no further.
    #[inline]
    fn end(&mut self, progress: Progress, patient: &Patient<'_>) -> Result<()> {
        match progress {
            Progress::Done => Ok(()),
            // Who gives up says so before it uses its memory for something else.
            Progress::DoneUnlessHalted if self.board.is_halted() => Err(self.lookout.ended()),
            Progress::DoneUnlessHalted => Ok(()),
            Progress::Differs { rank } => Err(self.differ(rank)),
            Progress::Unreachable { rank, error } => Err(self.lose(rank, error, patient)),
            Progress::Blocked { .. } | Progress::Suspects { .. } => unreachable!("it goes further"),
        }
    }

    /// Ends the group because a rank's memory cannot be read: most likely it has died.
    #[cold]
    fn lose(&self, rank: usize, error: Unread, patient: &Patient<'_>) -> Error {
        let what = format!("it could not read the memory of rank {rank}");
        self.lookout.lose(rank, error, patient.waiting(self.number), &what)
    }

    fn wait(&mut self, rank: usize, step: u32, patient: &mut Patient<'_>) -> Result<()> {
        let Self { board, lookout, number, .. } = self;
        let waited = board.wait(rank, step, || {
            lookout.note_wait(*number, rank);
            lookout.judge(&[rank], || patient.is_late())?;
            patient.warn(lookout, *number, &[rank]);
            Ok(())
        });
        waited.or_else(|stuck| self.give_up(stuck, rank, step, patient))
    }

    async fn wait_elsewhere(
        &mut self,
        rank: usize,
        step: u32,
        notes: &Notes,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        while !self.board.has_posted(rank, step) {
            if notes.is_to_look_round() {
                self.lookout.note_wait(self.number, rank);
                if let Err(stuck) = self.lookout.judge(&[rank], || patient.is_late()) {
                    return self.give_up(stuck, rank, step, patient);
                }
                patient.warn(&self.lookout, self.number, &[rank]);
                notes.sleep_on(self.board.watch(rank, step));
            }
            wait_once().await;
        }
        notes.has_moved();
        Ok(())
    }

    /// Ends the group, unless what is waited for is there after all: a rank may have posted with
    /// its last breath, or in the last moment; and whoever has ended the group has posted before all
    /// of its part in the calls that it had done.
    fn give_up(
        &mut self,
        stuck: Stuck,
        rank: usize,
        step: u32,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        if self.board.has_posted(rank, step) {
            return Ok(());
        }
        let is_late = matches!(stuck, Stuck::Late);
        if is_late
            && self.lookout.is_of_part()
            && self.has_begun(rank)
            && !patient.is_late_for(GRACE)
        {
            return Ok(());
        }
        let mut missing: Vec<usize> =
            (0..self.world()).filter(|&rank| !self.board.has_posted(rank, step)).collect();
        if self.lookout.is_of_part() && missing.iter().any(|&rank| !self.has_begun(rank)) {
            missing.retain(|&rank| !self.has_begun(rank));
        }
        let missing = missing.into_iter().collect();
        let waiting = patient.waiting(self.number);
        Err(self.lookout.give_up(stuck, waiting, missing, Stakes::Group))
    }

    /// Whether a rank has begun with the call that this one is in: then it may itself wait for
    /// another.
    pub(super) fn has_begun(&self, rank: usize) -> bool {
        self.board.calls_of(rank).last().is_some_and(|entry| entry.number >= self.number)
    }

    /// Ends the group if a rank has made other calls than this one.
    #[cold]
    fn look_into(&self, rank: usize) -> Result<()> {
        match self.board.first_difference(rank) {
            Some(_) => Err(self.differ(rank)),
            None => Ok(()),
        }
    }

    fn differ(&self, rank: usize) -> Error {
        self.lookout.decide(Cause::differs(&self.board, self.me, rank))
    }

    /// Ends the group because what one rank sends is not what another expects.
    pub(super) fn disagree(
        &self,
        patient: &Patient<'_>,
        from: usize,
        to: usize,
        sent: u64,
        expected: u64,
    ) -> Error {
        let call = patient.description;
        self.lookout.decide(Cause::Differs {
            number: self.number,
            mine: format!("{call}, with {expected} bytes from rank {from} to rank {to}"),
            rank: from as u32,
            theirs: format!("{call}, with {sent}"),
        })
    }

    /// Ends the group because what a rank tells of a part of its data cannot be true.
    pub(super) fn disbelieve(&self, patient: &Patient<'_>, rank: usize, what: &str) -> Error {
        let call = patient.description;
        self.lookout.decide(Cause::Differs {
            number: self.number,
            mine: call.to_string(),
            rank: rank as u32,
            theirs: format!("{call}, with {what}"),
        })
    }

    /// Says that this rank makes no more calls.
    pub(crate) fn leave(&self) {
        self.lookout.leave();
        self.board.leave();
    }

    /// Whether no rank makes calls any more: only then may its memory be used for something else,
    /// because a rank that has come far may leave while others still read what it said last.
    pub(crate) fn is_deserted(&self) -> bool {
        // Whoever has said that it leaves may just be about to count itself.
        let died_in_it =
            |&rank: &usize| self.neighbours[rank].is_dead() && !self.lookout.has_left(rank);
        self.board.is_deserted((0..self.world()).filter(died_in_it).count())
    }

    /// Leaves its memory as it is for those who still read it.
    pub(crate) fn abandon(self) {
        self.board_piece.abandon();
        self.ground.abandon();
        self.post.abandon();
    }
}

/// How long a rank that waits for one of its host, which may wait for another host, lets others say
/// first who is late.
const GRACE: Duration = Duration::from_millis(500);

/// How many ranks a group can have: each gets at least a cache line of every buffer.
pub(super) const MOST: usize = Ground::BUFFER / 64;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbourhood::AGREEMENT;

    impl Neighbour {
        /// Ranks of this process, who have taken nothing of these arenas yet.
        pub(in super::super) fn all_in_one(arenas: &[Arena]) -> Vec<Self> {
            let neighbour = |(rank, arena): (usize, &Arena)| {
                Parting::first_in(arena).unwrap();
                Self::new(rank as u32, arena.clone(), None)
            };
            arenas.iter().enumerate().map(neighbour).collect()
        }
    }

    /// So many ranks in one process, and where each has its board.
    pub(in super::super) fn lanes(world: usize) -> (Vec<Lane>, Vec<(Arena, usize)>) {
        let arenas: Vec<Arena> =
            (0..world).map(|_| Arena::create(AGREEMENT, 64 << 20).unwrap()).collect();
        let neighbours = Neighbour::all_in_one(&arenas);
        let places: Vec<Place> =
            arenas.iter().map(|arena| Place::take(arena, world).unwrap()).collect();
        let offsets: Vec<[u64; 3]> = places.iter().map(Place::offsets).collect();
        let patience = Patience::for_ranks(world, 1);
        let lane = |(me, place)| {
            Lane::new("few", me, neighbours.clone(), place, &offsets, patience).unwrap()
        };
        let lanes = places.into_iter().enumerate().map(lane).collect();
        let boards = offsets.into_iter().map(|offsets| offsets[0] as usize);
        (lanes, arenas.into_iter().zip(boards).collect())
    }

    #[test]
    fn more_ranks_than_have_room_in_a_buffer_are_refused() {
        let arena = Arena::create(AGREEMENT, 64 << 20).unwrap();
        let [neighbour] = &Neighbour::all_in_one(std::slice::from_ref(&arena))[..] else {
            panic!("one")
        };
        let neighbours = vec![neighbour.clone(); MOST + 1];
        let place = Place::take(&arena, 1).unwrap();
        let offsets = vec![place.offsets(); MOST + 1];
        let patience = Patience::for_ranks(1, 1);
        let error = Lane::new("crowd", 0, neighbours, place, &offsets, patience).unwrap_err();
        assert!(error.to_string().starts_with("2049 ranks are too many"), "{error}");
    }
}
