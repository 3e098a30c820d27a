//! The methods for slices: every one of them, with slices of every type.

use consort::{Complex32, Complex64, Element, F8E4m3, F8E5m2, Group, ReduceOp};
use half::{bf16, f16};

use super::data::{PERIOD, Tile, phase, phase_of_result};
use super::meet::{Digest, in_worlds};
use super::oracle::combine;

in_worlds! { every_method:
    of_all_types_are_handled_in_a_world_of_1 1 [shm tcp]
    of_all_types_are_handled_in_a_world_of_2 2 [shm tcp in_process mpi]
    of_all_types_are_handled_in_a_world_of_3 3 [shm tcp mixed]
    of_all_types_are_handled_in_a_world_of_4 4 [shm in_process]
    of_all_types_are_handled_in_a_world_of_5 5 [shm]
    of_all_types_are_handled_in_a_world_of_8 8 [shm]
}

fn every_method(group: &Group, digest: &mut Digest) {
    macro_rules! with_each {
        ($($element:ty)*) => {$(
            Slices::<$element>::new(group).use_all(digest);
        )*};
    }
    with_each!(f32 f64 f16 bf16 F8E4m3 F8E5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool);
    with_each!(Complex32 Complex64);
}

struct Slices<'a, T> {
    group: &'a Group,
    data: Tile,
    sums: Tile,
    element: std::marker::PhantomData<T>,
}

impl<'a, T: Element> Slices<'a, T> {
    fn new(group: &'a Group) -> Self {
        let data = Tile::new(T::DTYPE);
        let of = |rank: usize| data.take(phase(rank, 0), PERIOD);
        let all: Vec<Vec<u8>> = (0..group.world()).map(of).collect();
        let sums = Tile::made_of(T::DTYPE, combine(T::DTYPE, ReduceOp::Sum, &all));
        Self { group, data, sums, element: std::marker::PhantomData }
    }

    fn use_all(&self, digest: &mut Digest) {
        for (call, count) in [1, 0, 9, 1000].into_iter().enumerate() {
            let root = (call + usize::from(T::DTYPE.code())) % self.world();
            self.reduce_to_all(count, call, digest);
            self.reduce_to_all_together(count, call, digest);
            self.reduce_to_root(count, call, root);
            self.reduce_to_parts(count, call);
            self.give_to_all(count, call, root, digest);
            self.collect_at_root(count, call, root);
            self.hand_out_from_root(count, call, root);
            self.exchange(count, call);
        }
        // Together these are too large to travel together.
        self.reduce_to_all_together(20_000, 5, digest);
    }

    fn reduce_to_all(&self, count: usize, call: usize, digest: &mut Digest) {
        // Every slice begins one element into its memory.
        let mut buffer = self.mine(count + 1, call);
        self.group.all_reduce(&mut buffer[1..], ReduceOp::Sum).unwrap();
        self.are_sums("all_reduce", 1, call, &buffer[1..]);
        digest.add(T::bytes(&buffer[1..]));

        let (input, mut output) = (self.mine(count + 1, call), vec![T::default(); count + 2]);
        self.group.all_reduce_into(&input[1..], &mut output[2..], ReduceOp::Sum).unwrap();
        self.are_sums("all_reduce_into", 1, call, &output[2..]);
        assert_eq!(output[..2], [T::default(); 2]);
    }

    fn reduce_to_all_together(&self, count: usize, call: usize, digest: &mut Digest) {
        let mut all = self.mine(3 * count + 1, call);
        let (one, rest) = all.split_at_mut(2 * count);
        let (two, three) = rest.split_at_mut(0);
        self.group.all_reduce_coalesced(&mut [one, two, three], ReduceOp::Sum).unwrap();
        self.are_sums("all_reduce_coalesced", 0, call, &all);
        digest.add(T::bytes(&all));
    }

    fn reduce_to_root(&self, count: usize, call: usize, root: usize) {
        let mut buffer = self.mine(count, call);
        self.group.reduce(&mut buffer, ReduceOp::Sum, root as u32).unwrap();
        if root == self.me() {
            self.are_sums("reduce", 0, call, &buffer);
        } else {
            self.are_of("reduce elsewhere", self.me(), 0, call, &buffer);
        }

        let (input, mut output) = (self.mine(count, call), vec![T::default(); count]);
        let wanted = (root == self.me()).then_some(&mut output[..]);
        self.group.reduce_into(&input, wanted, ReduceOp::Sum, root as u32).unwrap();
        if root == self.me() {
            self.are_sums("reduce_into", 0, call, &output);
        }
    }

    fn reduce_to_parts(&self, count: usize, call: usize) {
        let (me, world) = (self.me(), self.world());
        let (input, mut output) = (self.mine(count * world, call), vec![T::default(); count]);
        self.group.reduce_scatter(&input, &mut output, ReduceOp::Sum).unwrap();
        self.are_sums("reduce_scatter", me * count, call, &output);

        let mut buffer = self.mine(count * world, call);
        self.group.reduce_scatter_in_place(&mut buffer, ReduceOp::Sum).unwrap();
        let part = me * count..(me + 1) * count;
        self.are_sums("reduce_scatter_in_place", part.start, call, &buffer[part.clone()]);
        assert_eq!(T::bytes(&buffer[..part.start]), T::bytes(&input[..part.start]));
        assert_eq!(T::bytes(&buffer[part.end..]), T::bytes(&input[part.end..]));

        let counts: Vec<usize> = (0..world).map(|rank| uneven(count, rank)).collect();
        let input = self.mine(counts.iter().sum(), call);
        let mut output = vec![T::default(); counts[me]];
        self.group
            .reduce_scatter_list(&split(&input, &counts), &mut output, ReduceOp::Sum)
            .unwrap();
        self.are_sums("reduce_scatter_list", counts[..me].iter().sum(), call, &output);
    }

    fn give_to_all(&self, count: usize, call: usize, root: usize, digest: &mut Digest) {
        let (me, world) = (self.me(), self.world());
        let mut buffer =
            if root == me { self.mine(count, call) } else { vec![T::default(); count] };
        self.group.broadcast(&mut buffer, root as u32).unwrap();
        self.are_of("broadcast", root, 0, call, &buffer);

        let mut everyones = vec![T::default(); count * world];
        self.group.all_gather(&self.mine(count, call), &mut everyones).unwrap();
        digest.add(T::bytes(&everyones));
        let mut in_place = vec![T::default(); count * world];
        in_place[me * count..(me + 1) * count].copy_from_slice(&self.mine(count, call));
        self.group.all_gather_in_place(&mut in_place).unwrap();
        for rank in 0..world {
            let part = rank * count..(rank + 1) * count;
            self.are_of("all_gather", rank, 0, call, &everyones[part.clone()]);
            self.are_of("all_gather_in_place", rank, 0, call, &in_place[part]);
        }

        let mut lists = self.room_for_all(count);
        let input = self.mine(uneven(count, me), call);
        self.group.all_gather_list(&input, &mut as_slices(&mut lists)).unwrap();
        for (rank, list) in lists.iter().enumerate() {
            self.are_of("all_gather_list", rank, 0, call, list);
        }
    }

    fn collect_at_root(&self, count: usize, call: usize, root: usize) {
        let (is_root, world) = (root == self.me(), self.world());
        let mut everyones = vec![T::default(); count * world];
        let wanted = is_root.then_some(&mut everyones[..]);
        self.group.gather(&self.mine(count, call), wanted, root as u32).unwrap();

        let mut lists = self.room_for_all(count);
        let mut slices = as_slices(&mut lists);
        let wanted = is_root.then_some(&mut slices[..]);
        let input = self.mine(uneven(count, self.me()), call);
        self.group.gather_list(&input, wanted, root as u32).unwrap();
        for rank in (0..world).filter(|_| is_root) {
            let part = &everyones[rank * count..(rank + 1) * count];
            self.are_of("gather", rank, 0, call, part);
            self.are_of("gather_list", rank, 0, call, &lists[rank]);
        }
    }

    fn hand_out_from_root(&self, count: usize, call: usize, root: usize) {
        let (me, world) = (self.me(), self.world());
        let everyones = self.mine(count * world, call);
        let mut output = vec![T::default(); count];
        let given = (root == me).then_some(&everyones[..]);
        self.group.scatter(given, &mut output, root as u32).unwrap();
        self.are_of("scatter", root, me * count, call, &output);

        let counts: Vec<usize> = (0..world).map(|rank| uneven(count, rank)).collect();
        let everyones = self.mine(counts.iter().sum(), call);
        let lists = split(&everyones, &counts);
        let mut output = vec![T::default(); counts[me]];
        let given = (root == me).then_some(&lists[..]);
        self.group.scatter_list(given, &mut output, root as u32).unwrap();
        self.are_of("scatter_list", root, counts[..me].iter().sum(), call, &output);
    }

    fn exchange(&self, count: usize, call: usize) {
        let (me, world) = (self.me(), self.world());
        let input = self.mine(count * world, call);
        let (mut output, mut in_place) = (vec![T::default(); count * world], input.clone());
        self.group.all_to_all(&input, &mut output).unwrap();
        self.group.all_to_all_in_place(&mut in_place).unwrap();
        for rank in 0..world {
            let part = rank * count..(rank + 1) * count;
            self.are_of("all_to_all", rank, me * count, call, &output[part.clone()]);
            self.are_of("all_to_all_in_place", rank, me * count, call, &in_place[part]);
        }

        // From one rank to another, another size than back.
        let sizes = |from: usize| -> Vec<usize> {
            (0..world).map(|to| uneven(count, from * world + to)).collect()
        };
        let (to, from) = (sizes(me), (0..world).map(|rank| sizes(rank)[me]).collect::<Vec<_>>());
        let input = self.mine(to.iter().sum(), call);
        let mut output = vec![T::default(); from.iter().sum()];
        self.group.all_to_all_uneven(&input, &to, &mut output, &from).unwrap();
        let mut lists: Vec<Vec<T>> = from.iter().map(|&count| vec![T::default(); count]).collect();
        self.group.all_to_all_list(&split(&input, &to), &mut as_slices(&mut lists)).unwrap();
        for (rank, part) in split(&output, &from).into_iter().enumerate() {
            let start = sizes(rank)[..me].iter().sum();
            self.are_of("all_to_all_uneven", rank, start, call, part);
            self.are_of("all_to_all_list", rank, start, call, &lists[rank]);
        }
    }

    fn me(&self) -> usize {
        self.group.rank().index()
    }

    fn world(&self) -> usize {
        self.group.world()
    }

    /// What this rank has in a call.
    fn mine(&self, count: usize, call: usize) -> Vec<T> {
        let mut elements = vec![T::default(); count];
        let bytes = self.data.take(phase(self.me(), call), count);
        T::target(&mut elements).copy_from(bytes[..].into());
        elements
    }

    fn room_for_all(&self, count: usize) -> Vec<Vec<T>> {
        (0..self.world()).map(|rank| vec![T::default(); uneven(count, rank)]).collect()
    }

    fn are_sums(&self, what: &str, from: usize, call: usize, found: &[T]) {
        let told = || format!("{what} of {} {}, number {call}", found.len(), T::DTYPE);
        self.sums.check(phase_of_result(call) + from, T::bytes(found), told);
    }

    /// These are a rank's elements from one on.
    fn are_of(&self, what: &str, rank: usize, from: usize, call: usize, found: &[T]) {
        let told = || {
            let count = found.len();
            format!("{what} of {count} {} of rank {rank}, number {call}", T::DTYPE)
        };
        self.data.check(phase(rank, call) + from, T::bytes(found), told);
    }
}

/// A count for each rank: none for some, much more than the others for some.
fn uneven(count: usize, rank: usize) -> usize {
    match rank % 4 {
        0 => count,
        1 => 0,
        2 => 3 * count + 1,
        _ => 40 * count,
    }
}

fn split<'s, T>(mut all: &'s [T], counts: &[usize]) -> Vec<&'s [T]> {
    let parts = counts.iter().map(|&count| {
        let (part, rest) = all.split_at(count);
        all = rest;
        part
    });
    parts.collect()
}

fn as_slices<T>(lists: &mut [Vec<T>]) -> Vec<&mut [T]> {
    lists.iter_mut().map(|list| &mut list[..]).collect()
}
