//! broadcast, all_gather, gather, scatter and all_to_all, with every dtype from and to every rank.

use consort::{Dtype, Group, Rank};

use super::data::{Tile, phase};
use super::exercise::{Caller, Exercise, What};
use super::meet::{Digest, in_worlds};
use super::room::Room;
use super::sizes::{every_edge, long};

in_worlds! { every_move:
    are_right_in_a_world_of_1 1 [shm tcp]
    are_right_in_a_world_of_2 2 [shm tcp in_process mpi]
    are_right_in_a_world_of_3 3 [shm tcp mpi]
    are_right_in_a_world_of_4 4 [shm mixed in_process mpi]
    are_right_in_a_world_of_5 5 [shm tcp]
    are_right_in_a_world_of_8 8 [shm]
}

fn every_move(group: &Group, digest: &mut Digest) {
    let world = group.world();
    move_everything(&Caller::here(group), digest, |dtype| {
        let mut counts = every_edge(dtype, world);
        counts.push(long(dtype) / world);
        counts
    });
}

/// Every dtype, so many elements each time. Over all dtypes, every rank is the root with every
/// count.
pub(crate) fn move_everything(
    caller: &Caller<'_>,
    digest: &mut Digest,
    counts: impl Fn(Dtype) -> Vec<usize>,
) {
    for dtype in Dtype::ALL {
        let moves = Moves { caller, dtype, data: &Tile::new(dtype) };
        for (at, count) in counts(dtype).into_iter().enumerate() {
            let root = (at + usize::from(dtype.code())) % caller.world();
            moves.all(count, root, digest);
        }
    }
}

pub(crate) struct Moves<'a> {
    pub(crate) caller: &'a Caller<'a>,
    pub(crate) dtype: Dtype,
    pub(crate) data: &'a Tile,
}

impl Moves<'_> {
    pub(crate) fn all(&self, count: usize, root: usize, digest: &mut Digest) {
        let call = count + root;
        digest.add(&self.broadcast(count, root, call));
        digest.add(&self.all_gather(count, call + 1));
        digest.add(&self.all_gather_in_place(count, call + 2));
        self.gather(count, root, call + 3);
        self.scatter(count, root, call + 4);
        self.all_to_all(count, call + 5);
        self.all_to_all_in_place(count, call + 6);
    }

    /// Returns the result.
    pub(crate) fn broadcast(&self, count: usize, root: usize, call: usize) -> Vec<u8> {
        let room = match root == self.me() {
            true => self.of(root, count, call),
            false => self.nothing(count, call),
        };
        let (_, result) = self.carry_out(What::Broadcast(rank(root)), None, Some(room));
        let result = result.expect("it was there before");
        self.check("broadcast", root, 0, call, result.bytes());
        result.bytes().to_vec()
    }

    /// Returns the result.
    pub(crate) fn all_gather(&self, count: usize, call: usize) -> Vec<u8> {
        let mine = self.of(self.me(), count, call);
        let everyone = self.nothing(count * self.world(), call);
        let (mine, everyone) = self.with_both(What::AllGather, mine, everyone);
        self.check("the input of all_gather", self.me(), 0, call, mine.bytes());
        self.check_parts("all_gather", count, call, everyone.bytes());
        everyone.bytes().to_vec()
    }

    /// Returns the result.
    pub(crate) fn all_gather_in_place(&self, count: usize, call: usize) -> Vec<u8> {
        let mine = self.data.take(phase(self.me(), call), count);
        let mut everyone = self.nothing(count * self.world(), call);
        let part = self.me() * mine.len()..(self.me() + 1) * mine.len();
        everyone.target().slice(part).copy_from(mine[..].into());
        let (_, everyone) = self.carry_out(What::AllGather, None, Some(everyone));
        let everyone = everyone.expect("it was there before");
        self.check_parts("all_gather in place", count, call, everyone.bytes());
        everyone.bytes().to_vec()
    }

    pub(crate) fn gather(&self, count: usize, root: usize, call: usize) {
        let mine = self.of(self.me(), count, call);
        let everyone = (root == self.me()).then(|| self.nothing(count * self.world(), call));
        let (mine, everyone) = self.carry_out(What::Gather(rank(root)), Some(mine), everyone);
        let mine = mine.expect("it was there before");
        self.check("the input of gather", self.me(), 0, call, mine.bytes());
        everyone.iter().for_each(|it| self.check_parts("gather", count, call, it.bytes()));
    }

    pub(crate) fn scatter(&self, count: usize, root: usize, call: usize) {
        let everyones = (root == self.me()).then(|| self.of(root, count * self.world(), call));
        let mine = self.nothing(count, call);
        let (everyones, mine) = self.carry_out(What::Scatter(rank(root)), everyones, Some(mine));
        let mine = mine.expect("it was there before");
        self.check("scatter", root, self.me() * count, call, mine.bytes());
        let check = |it: &Room| self.check("the input of scatter", root, 0, call, it.bytes());
        everyones.iter().for_each(check);
    }

    pub(crate) fn all_to_all(&self, count: usize, call: usize) {
        let mine = self.of(self.me(), count * self.world(), call);
        let theirs = self.nothing(count * self.world(), call);
        let (mine, theirs) = self.with_both(What::AllToAll, mine, theirs);
        self.check("the input of all_to_all", self.me(), 0, call, mine.bytes());
        self.check_exchange("all_to_all", count, call, theirs.bytes());
    }

    pub(crate) fn all_to_all_in_place(&self, count: usize, call: usize) {
        let all = self.of(self.me(), count * self.world(), call);
        let (all, _) = self.carry_out(What::AllToAll, Some(all), None);
        let all = all.expect("it was there before");
        self.check_exchange("all_to_all in place", count, call, all.bytes());
    }

    fn carry_out(
        &self,
        what: What,
        input: Option<Room>,
        output: Option<Room>,
    ) -> (Option<Room>, Option<Room>) {
        let exercise = Exercise::new(self.caller.group, what, self.dtype, input, output);
        let Exercise { input, output, .. } = self.caller.carry_out(exercise);
        (input, output)
    }

    fn with_both(&self, what: What, input: Room, output: Room) -> (Room, Room) {
        let (input, output) = self.carry_out(what, Some(input), Some(output));
        (input.expect("it was there before"), output.expect("it was there before"))
    }

    fn me(&self) -> usize {
        self.caller.me()
    }

    fn world(&self) -> usize {
        self.caller.world()
    }

    /// What a rank has in a call.
    fn of(&self, rank: usize, count: usize, call: usize) -> Room {
        Room::holding(&self.data.take(phase(rank, call), count), call % 3)
    }

    fn nothing(&self, count: usize, call: usize) -> Room {
        Room::empty(count * self.dtype.size(), call % 5)
    }

    /// These are a rank's elements from one on.
    pub(crate) fn check(&self, what: &str, rank: usize, from: usize, call: usize, found: &[u8]) {
        self.data.check(phase(rank, call) + from, found, || {
            let count = found.len() / self.dtype.size();
            format!("{what}: {count} {} of rank {rank}, number {call}", self.dtype)
        });
    }

    /// The data of all ranks, in their order.
    pub(crate) fn check_parts(&self, what: &str, count: usize, call: usize, found: &[u8]) {
        for (rank, part) in self.parts(count, found) {
            self.check(what, rank, 0, call, part);
        }
    }

    /// Of all ranks, the part for this one.
    pub(crate) fn check_exchange(&self, what: &str, count: usize, call: usize, found: &[u8]) {
        for (rank, part) in self.parts(count, found) {
            self.check(what, rank, self.me() * count, call, part);
        }
    }

    fn parts<'f>(&self, count: usize, found: &'f [u8]) -> impl Iterator<Item = (usize, &'f [u8])> {
        let part = count * self.dtype.size();
        (0..self.world()).map(move |rank| (rank, &found[rank * part..(rank + 1) * part]))
    }
}

fn rank(number: usize) -> Rank {
    Rank::from(number as u32)
}
