//! Everything once more in symmetric memory: by the group's calls, which work there on what is large
//! enough, also by those that own the window, and by the collectives of the memory itself.

use consort::symm::{Plain, Symmetric};
use consort::{Complex32, Complex64, Dtype, Error, F8E4m3, F8E5m2, Group, ReduceOp};
use consort_testkit::{Case, Kind, conformance};
use half::{bf16, f16};

use super::data::{Tile, phase};
use super::exercise::Caller;
use super::meet::{Digest, in_worlds, meet};
use super::moves::{Moves, move_everything};
use super::oracle::operations;
use super::reductions::{Reduction, reduce_everything};
use super::sizes::{every_edge, every_way, long};
use super::works::works;

in_worlds! { every_reduction:
    reductions_of_the_group_are_right_in_a_world_of_2 2 [shm in_process]
    reductions_of_the_group_are_right_in_a_world_of_3 3 [shm]
}
in_worlds! { every_move:
    moves_of_the_group_are_right_in_a_world_of_2 2 [shm in_process]
    moves_of_the_group_are_right_in_a_world_of_3 3 [shm]
}
in_worlds! { every_reduction_in_kept_windows:
    reductions_of_kept_windows_are_right_in_a_world_of_1 1 [shm]
    reductions_of_kept_windows_are_right_in_a_world_of_2 2 [shm in_process]
    reductions_of_kept_windows_are_right_in_a_world_of_3 3 [shm]
    reductions_of_kept_windows_are_right_in_a_world_of_4 4 [shm]
}
in_worlds! { every_move_in_kept_windows:
    moves_of_kept_windows_are_right_in_a_world_of_3 3 [shm in_process]
}
in_worlds! { every_method: of_all_types_have_their_own_collectives_in_a_world_of_4 4 [shm] }

conformance! { [tcp mixed] are_refused_to_groups_whose_ranks_do_not_share_memory }

fn are_refused_to_groups_whose_ranks_do_not_share_memory(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let refused = |group: &Group| {
            let errors = [
                group.symmetric::<u64>(8).map(drop).unwrap_err(),
                group.pool(1 << 16).map(drop).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, Error::SeveralHosts { .. }), "{error}");
                assert!(error.to_string().contains("do not all share memory"), "{error}");
            }
            assert!(!group.shares_memory());
            assert!(!group.is_symmetric(&[1_u8]));
        };
        refused(&group);
        let half = group.split(Some(ctx.rank() / 2), 0).unwrap().unwrap();
        match ctx.kind() {
            Kind::Mixed => {
                assert!(half.shares_memory());
                drop(half.symmetric::<u64>(8).unwrap());
            }
            _ => refused(&half),
        }
        works(&group);
        works(&half);
    });
}

fn every_reduction(group: &Group, digest: &mut Digest) {
    let caller = Caller::in_window(group, group.world() * LONGEST);
    reduce_everything(&caller, digest, |dtype| counts(dtype, group.world()));
}

fn every_move(group: &Group, digest: &mut Digest) {
    let caller = Caller::in_window(group, group.world() * LONGEST);
    move_everything(&caller, digest, |dtype| counts(dtype, group.world()));
}

fn every_reduction_in_kept_windows(group: &Group, digest: &mut Digest) {
    assert!(group.shares_memory());
    let caller = Caller::in_kept_window(group, group.world() * LONGEST);
    reduce_everything(&caller, digest, |dtype| every_way(dtype, group.world()));
}

fn every_move_in_kept_windows(group: &Group, digest: &mut Digest) {
    let caller = Caller::in_kept_window(group, group.world() * LONGEST);
    move_everything(&caller, digest, |dtype| every_way(dtype, group.world()));
}

fn counts(dtype: Dtype, world: usize) -> Vec<usize> {
    [every_edge(dtype, world), vec![long(dtype)]].concat()
}

fn every_method(group: &Group, digest: &mut Digest) {
    macro_rules! with_each {
        ($($element:ty)*) => {$(
            Windows::<$element>::new(group).use_all(digest);
        )*};
    }
    with_each!(f32 f64 f16 bf16 F8E4m3 F8E5m2 i8 i16 i32 i64 u8 u16 u32 u64 Complex32 Complex64);
}

struct Windows<'a, T> {
    caller: Caller<'a>,
    data: Tile,
    element: std::marker::PhantomData<T>,
}

impl<'a, T: Plain> Windows<'a, T> {
    fn new(group: &'a Group) -> Self {
        let (caller, data) = (Caller::here(group), Tile::new(T::DTYPE));
        Self { caller, data, element: std::marker::PhantomData }
    }

    fn use_all(&self, digest: &mut Digest) {
        let make = |len: usize| self.caller.group.symmetric::<T>(len).unwrap();
        // Slices of whole elements, of whole cache lines, and of many.
        let parts = [0, 1, 7, 64, 65, 1_024, 10_007];
        let equal = parts.map(|part| make(part * self.caller.world()));
        // Without a part of the same size for each rank.
        let unequal = parts.map(|part| make(part * 5 + 3));
        for op in operations(T::DTYPE) {
            let reduction = Reduction::new(&self.caller, T::DTYPE, op, &self.data);
            for (call, (memory, part)) in equal.iter().zip(parts).enumerate() {
                self.reduce(memory, &reduction, op, part, call, digest);
            }
            for (call, memory) in equal.iter().chain(&unequal).enumerate() {
                self.replace(memory, &reduction, op, call, digest);
            }
        }
        for (call, (memory, part)) in equal.iter().zip(parts).enumerate() {
            self.exchange(memory, part, call, digest);
        }
    }

    fn reduce(
        &self,
        memory: &Symmetric<T>,
        reduction: &Reduction<'_>,
        op: ReduceOp,
        part: usize,
        call: usize,
        digest: &mut Digest,
    ) {
        let (me, len) = (self.caller.me(), memory.len());
        self.fill(memory, call);
        let mut output = vec![T::default(); len];
        memory.one_shot_all_reduce(&mut output, op).unwrap();
        reduction.check("one_shot_all_reduce", 0, len, call, T::bytes(&output));
        digest.add(T::bytes(&output));

        let mut output = vec![T::default(); part];
        memory.reduce_scatter(&mut output, op).unwrap();
        reduction.check("reduce_scatter", me * part, part, call, T::bytes(&output));
        self.is_as_before(memory, call);
    }

    fn replace(
        &self,
        memory: &Symmetric<T>,
        reduction: &Reduction<'_>,
        op: ReduceOp,
        call: usize,
        digest: &mut Digest,
    ) {
        self.fill(memory, call);
        memory.two_shot_all_reduce(op).unwrap();
        let window = memory.local().unwrap();
        reduction.check("two_shot_all_reduce", 0, memory.len(), call, T::bytes(&window));
        digest.add(T::bytes(&window));
    }

    fn exchange(&self, memory: &Symmetric<T>, part: usize, call: usize, digest: &mut Digest) {
        let moves = Moves { caller: &self.caller, dtype: T::DTYPE, data: &self.data };
        let (me, world, len) = (self.caller.me(), self.caller.world(), memory.len());
        self.fill(memory, call);
        let mut output = vec![T::default(); len * world];
        memory.all_gather(&mut output).unwrap();
        moves.check_parts("all_gather", len, call, T::bytes(&output));
        digest.add(T::bytes(&output));

        let mut output = vec![T::default(); len];
        memory.all_to_all(&mut output).unwrap();
        moves.check_exchange("all_to_all", part, call, T::bytes(&output));
        self.is_as_before(memory, call);

        let root = call % world;
        memory.broadcast(root as u32).unwrap();
        moves.check("broadcast", root, 0, call, T::bytes(&memory.local().unwrap()));

        let mine = self.data.take(phase(me, call), part);
        let range = me * part..(me + 1) * part;
        T::target(&mut memory.local().unwrap()[range]).copy_from(mine[..].into());
        memory.all_gather_in_place().unwrap();
        moves.check_parts("all_gather_in_place", part, call, T::bytes(&memory.local().unwrap()));
    }

    fn fill(&self, memory: &Symmetric<T>, call: usize) {
        let mine = self.data.take(phase(self.caller.me(), call), memory.len());
        T::target(&mut memory.local().unwrap()).copy_from(mine[..].into());
    }

    fn is_as_before(&self, memory: &Symmetric<T>, call: usize) {
        let moves = Moves { caller: &self.caller, dtype: T::DTYPE, data: &self.data };
        moves.check("the window", self.caller.me(), 0, call, T::bytes(&memory.local().unwrap()));
    }
}

/// More than what the longest call has for each rank.
const LONGEST: usize = 512 << 10;
