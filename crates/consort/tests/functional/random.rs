//! Programs of many calls, made by chance: every rank makes the same of the same seed.

use consort::functional::{Array, Collective, Pending, coalesced, start};
use consort::{Group, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::exercise::{Round, assert_same};
use crate::meet::{block_on, meet};
use crate::numbers::{Number, scramble};
use crate::oracle::result;

conformance! { [shm tcp mixed in_process]
    programs_of_any_calls_of_any_ranks_get_what_they_should
}

fn programs_of_any_calls_of_any_ranks_get_what_they_should(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        for seed in 0..6 {
            Program { group: &group, dice: Dice(seed), awaited: Vec::new(), step: 0 }.run();
        }
        group.barrier().unwrap();
    });
}

/// Numbers that look like chance.
struct Dice(u64);

impl Dice {
    /// Less than this.
    fn roll(&mut self, faces: usize) -> usize {
        self.0 = scramble(self.0 >> 1);
        (self.0 >> 20) as usize % faces
    }
}

/// What has begun, and what should come of it.
type Awaited = (String, Pending<Vec<Array<u32>>>, Vec<Array<u32>>);

struct Program<'a> {
    group: &'a Group,
    dice: Dice,
    awaited: Vec<Awaited>,
    step: usize,
}

impl Program<'_> {
    fn run(mut self) {
        for step in 0..60 {
            self.step = step;
            self.begin();
            if self.dice.roll(4) == 0 {
                self.settle();
            }
        }
        while !self.awaited.is_empty() {
            self.settle();
        }
    }

    /// Some ranks make one call, or several at once.
    fn begin(&mut self) {
        let list = LISTS[self.dice.roll(LISTS.len())];
        let count = [1, 1, 1, 0, 2, 5][self.dice.roll(6)];
        let rounds: Vec<Round> = (0..count).map(|_| self.round(list.len())).collect();
        let Some(me) = list.iter().position(|&rank| rank == self.group.rank().get()) else {
            return;
        };
        let values: Vec<Vec<Array<u32>>> =
            rounds.iter().map(|round| round.values(self.step, u32::any)).collect();
        let right = rounds.iter().zip(&values);
        let right = right.map(|(it, values)| result(me, &it.calls, values, u32::combine));
        let right: Vec<Array<u32>> = right.collect();
        let calls: Vec<_> = rounds
            .iter()
            .zip(&values)
            .map(|(round, values)| (round.calls[me].clone(), &values[me]))
            .collect();
        let what = format!("step {}: {calls:?} of {list:?}", self.step);
        let ranks = (self.group, list);
        let pending = match &calls[..] {
            [(call, x)] => start(call.clone(), *x, ranks).unwrap().map(|one| Ok(vec![one])),
            several => coalesced(several, ranks).unwrap(),
        };
        self.awaited.push((what, pending, right));
    }

    fn round(&mut self, world: usize) -> Round {
        let mut shape: Vec<usize> = (0..self.dice.roll(4)).map(|_| self.dice.roll(4)).collect();
        if self.dice.roll(12) == 0 {
            shape = vec![3, 1_500];
        }
        let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::BitXor, ReduceOp::Avg][self.dice.roll(4)];
        let root = (self.dice.roll(world) as u32).into();
        let dim = self.dice.roll(shape.len().max(1));
        let call = match self.dice.roll(7) {
            0 => Collective::AllReduce { op },
            1 => Collective::Broadcast { root },
            2 => Collective::Reduce { op, root },
            3 => Collective::AllGather { dim },
            4 => {
                let by = self.dice.roll(world);
                let of = (0..world).filter(|_| self.dice.roll(5) > 0).collect::<Vec<_>>();
                let pair =
                    |from: usize| ((from as u32).into(), (((from + by) % world) as u32).into());
                Collective::Permute { pairs: of.into_iter().map(pair).collect() }
            }
            kind => {
                if shape.is_empty() {
                    shape.push(2);
                }
                if kind == 5 {
                    shape[dim] *= world;
                    Collective::ReduceScatter { op, dim }
                } else {
                    shape[0] *= world;
                    Collective::AllToAll
                }
            }
        };
        Round::alike(world, &call, &shape)
    }

    /// Something that has begun is waited for, in some way, or left alone. Ranks need not do the same.
    fn settle(&mut self) {
        if self.awaited.is_empty() {
            return;
        }
        let whim = scramble(self.dice.0 ^ u64::from(self.group.rank().get())) as usize;
        let (what, pending, right) = self.awaited.swap_remove(whim % self.awaited.len());
        let found = match whim / 64 % 6 {
            0 => return drop(pending),
            1 => block_on(pending),
            2 => block_on(pending.map(Ok::<_, consort::Error>)),
            3 => {
                let clone = pending.clone();
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| clone.wait().unwrap());
                    assert_eq!(pending.get().unwrap(), &other.join().unwrap());
                });
                pending.wait()
            }
            _ => pending.wait(),
        };
        let found = found.unwrap();
        assert_eq!(found.len(), right.len());
        found.iter().zip(&right).for_each(|(found, right)| assert_same(found, right, &what));
    }
}

const LISTS: &[&[u32]] = &[
    &[0, 1, 2, 3],
    &[0, 1, 2, 3],
    &[0, 1, 2, 3],
    &[3, 2, 1, 0],
    &[0, 2],
    &[3, 1],
    &[1, 2, 3],
    &[2],
    &[2, 0, 1],
];
