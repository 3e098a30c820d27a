//! broadcast, all_gather, gather, scatter and all_to_all, with every dtype from and to every rank.

use consort::{Call, Dtype, Group, Inputs, Outputs, Rank};

use super::data::{Tile, phase};
use super::meet::{Digest, in_worlds};
use super::room::Room;
use super::sizes::{large, small};

in_worlds! { every_move:
    are_right_in_a_world_of_1 1
    are_right_in_a_world_of_2 2
    are_right_in_a_world_of_3 3
    are_right_in_a_world_of_4 4
    are_right_in_a_world_of_5 5
    are_right_in_a_world_of_8 8
}

fn every_move(group: &Group, digest: &mut Digest) {
    let world = group.world();
    for dtype in Dtype::ALL {
        let moves = Moves { group, dtype, data: &Tile::new(dtype) };
        // Over all dtypes, every rank is the root with every count.
        let turn = world + usize::from(dtype.code());
        for (at, count) in
            [small(dtype), large(dtype, world, turn)].concat().into_iter().enumerate()
        {
            moves.all(count, (at + turn) % world, digest);
        }
    }
}

pub(crate) struct Moves<'a> {
    pub(crate) group: &'a Group,
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
    fn broadcast(&self, count: usize, root: usize, call: usize) -> Vec<u8> {
        let mut room = match root == self.me() {
            true => self.of(root, count, call),
            false => self.nothing(count, call),
        };
        let (dtype, buffer) = (self.dtype, room.target());
        let root_rank = Rank::from(root as u32);
        self.group.call(&Call::Broadcast { dtype, root: root_rank, buffer }).unwrap();
        self.check("broadcast", root, 0, call, room.bytes());
        room.bytes().to_vec()
    }

    /// Returns the result.
    fn all_gather(&self, count: usize, call: usize) -> Vec<u8> {
        let mine = self.of(self.me(), count, call);
        let mut everyone = self.nothing(count * self.world(), call);
        let (dtype, input) = (self.dtype, mine.source());
        let outputs = Outputs::Equal(everyone.target());
        self.group.call(&Call::AllGather { dtype, input, outputs }).unwrap();
        self.check("the input of all_gather", self.me(), 0, call, mine.bytes());
        self.check_parts("all_gather", count, call, everyone.bytes());
        everyone.bytes().to_vec()
    }

    /// Returns the result.
    fn all_gather_in_place(&self, count: usize, call: usize) -> Vec<u8> {
        let mine = self.of(self.me(), count, call);
        let mut everyone = self.nothing(count * self.world(), call);
        let outputs = Outputs::Equal(everyone.target());
        let part = outputs.part(self.me(), self.world());
        part.copy_from(mine.source());
        let (dtype, input) = (self.dtype, part.into());
        self.group.call(&Call::AllGather { dtype, input, outputs }).unwrap();
        self.check_parts("all_gather in place", count, call, everyone.bytes());
        everyone.bytes().to_vec()
    }

    fn gather(&self, count: usize, root: usize, call: usize) {
        let mine = self.of(self.me(), count, call);
        let mut everyone = self.nothing(count * self.world(), call);
        let (dtype, input, is_root) = (self.dtype, mine.source(), root == self.me());
        let outputs = is_root.then(|| Outputs::Equal(everyone.target()));
        let root = Rank::from(root as u32);
        self.group.call(&Call::Gather { dtype, root, uneven: false, input, outputs }).unwrap();
        match is_root {
            true => self.check_parts("gather", count, call, everyone.bytes()),
            false => assert!(everyone.is_untouched()),
        }
    }

    fn scatter(&self, count: usize, root: usize, call: usize) {
        let everyones = (root == self.me()).then(|| self.of(root, count * self.world(), call));
        let mut mine = self.nothing(count, call);
        let (dtype, output) = (self.dtype, mine.target());
        let inputs = everyones.as_ref().map(|room| Inputs::Equal(room.source()));
        let root_rank = Rank::from(root as u32);
        let call_it = Call::Scatter { dtype, root: root_rank, uneven: false, inputs, output };
        self.group.call(&call_it).unwrap();
        self.check("scatter", root, self.me() * count, call, mine.bytes());
    }

    fn all_to_all(&self, count: usize, call: usize) {
        let mine = self.of(self.me(), count * self.world(), call);
        let mut theirs = self.nothing(count * self.world(), call);
        let (inputs, outputs) = (Inputs::Equal(mine.source()), Outputs::Equal(theirs.target()));
        let dtype = self.dtype;
        self.group.call(&Call::AllToAll { dtype, uneven: false, inputs, outputs }).unwrap();
        self.check("the input of all_to_all", self.me(), 0, call, mine.bytes());
        self.check_exchange("all_to_all", count, call, theirs.bytes());
    }

    fn all_to_all_in_place(&self, count: usize, call: usize) {
        let mut all = self.of(self.me(), count * self.world(), call);
        let buffer = all.target();
        let (inputs, outputs) = (Inputs::Equal(buffer.into()), Outputs::Equal(buffer));
        let dtype = self.dtype;
        self.group.call(&Call::AllToAll { dtype, uneven: false, inputs, outputs }).unwrap();
        self.check_exchange("all_to_all in place", count, call, all.bytes());
    }

    fn me(&self) -> usize {
        self.group.rank().index()
    }

    fn world(&self) -> usize {
        self.group.world()
    }

    /// What a rank has in a call.
    fn of(&self, rank: usize, count: usize, call: usize) -> Room {
        Room::holding(&self.data.take(phase(rank, call), count), call % 3)
    }

    fn nothing(&self, count: usize, call: usize) -> Room {
        Room::empty(count * self.dtype.size(), call % 5)
    }

    /// These are a rank's elements from one on.
    fn check(&self, what: &str, rank: usize, from: usize, call: usize, found: &[u8]) {
        self.data.check(phase(rank, call) + from, found, || {
            let count = found.len() / self.dtype.size();
            format!("{what}: {count} {} of rank {rank}, number {call}", self.dtype)
        });
    }

    /// The data of all ranks, in their order.
    fn check_parts(&self, what: &str, count: usize, call: usize, found: &[u8]) {
        for (rank, part) in self.parts(count, found) {
            self.check(what, rank, 0, call, part);
        }
    }

    /// Of all ranks, the part for this one.
    fn check_exchange(&self, what: &str, count: usize, call: usize, found: &[u8]) {
        for (rank, part) in self.parts(count, found) {
            self.check(what, rank, self.me() * count, call, part);
        }
    }

    fn parts<'f>(&self, count: usize, found: &'f [u8]) -> impl Iterator<Item = (usize, &'f [u8])> {
        let part = count * self.dtype.size();
        (0..self.world()).map(move |rank| (rank, &found[rank * part..(rank + 1) * part]))
    }
}
