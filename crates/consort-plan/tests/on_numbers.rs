//! Programs run on real numbers, all ranks in one process, with messages that wait in queues, and
//! compared with results computed without any program.

use std::collections::{HashMap, VecDeque};

use consort_plan::algo::{self, Algorithm, Hierarchical};
use consort_plan::{Chunks, Collective, How, Layout, Operand, Program, Space, Step};
use proptest::prelude::*;

/// An operation that is neither commutative nor associative shows every order; it is the same for
/// all ranks only if they do the same.
fn odd(first: u64, second: u64) -> u64 {
    first.wrapping_mul(31) ^ second.wrapping_add(7)
}

/// One that is both.
fn sum(first: u64, second: u64) -> u64 {
    first.wrapping_add(second)
}

/// A rank's buffers: of each space, its chunks.
struct Rank {
    program: Program,
    round: usize,
    has_sent: bool,
    spaces: [Vec<Vec<u64>>; 3],
}

impl Rank {
    fn read(&self, chunks: Chunks) -> Vec<Vec<u64>> {
        chunks
            .numbers()
            .map(|chunk| self.spaces[chunks.space as usize][chunk as usize].clone())
            .collect()
    }

    fn write(&mut self, chunks: Chunks, numbers: Vec<Vec<u64>>) {
        for (chunk, numbers) in chunks.numbers().zip(numbers) {
            let place = &mut self.spaces[chunks.space as usize][chunk as usize];
            assert_eq!(place.len(), numbers.len(), "what is put there has the size of the place");
            *place = numbers;
        }
    }
}

type Mail = HashMap<(u32, u32), VecDeque<Vec<Vec<u64>>>>;

/// Goes through a round as far as it can; whether it got anywhere.
fn go_on(ranks: &mut [Rank], number: u32, mail: &mut Mail, combine: fn(u64, u64) -> u64) -> bool {
    let rank = &mut ranks[number as usize];
    if rank.round == rank.program.len() {
        return false;
    }
    let steps = rank.program.round(rank.round).to_vec();
    let mut moved = false;
    if !rank.has_sent {
        for step in &steps {
            match step {
                Step::Copy { from, into } => rank.write(*into, rank.read(*from)),
                Step::Send { to, from } => {
                    mail.entry((number, *to)).or_default().push_back(rank.read(*from));
                }
                Step::Recv { .. } => {}
            }
        }
        (rank.has_sent, moved) = (true, true);
    }
    let mut needed: HashMap<u32, usize> = HashMap::new();
    for step in &steps {
        if let Step::Recv { from, .. } = step {
            *needed.entry(*from).or_default() += 1;
        }
    }
    let has_come = |(from, count): (&u32, &usize)| {
        mail.get(&(*from, number)).is_some_and(|queue| queue.len() >= *count)
    };
    if !needed.iter().all(has_come) {
        return moved;
    }
    for step in steps {
        if let Step::Recv { from, into, how } = step {
            let received = mail.get_mut(&(from, number)).and_then(VecDeque::pop_front);
            let received = received.expect("all that is needed has come");
            let result = match how {
                How::Overwrite => received,
                How::Combine { with, first } => {
                    let pair = |(theirs, mine): (u64, u64)| match first {
                        Operand::Received => combine(theirs, mine),
                        Operand::Local => combine(mine, theirs),
                    };
                    let chunk = |(theirs, mine): (Vec<u64>, Vec<u64>)| {
                        assert_eq!(theirs.len(), mine.len());
                        theirs.into_iter().zip(mine).map(pair).collect()
                    };
                    received.into_iter().zip(rank.read(with)).map(chunk).collect()
                }
            };
            rank.write(into, result);
        }
    }
    rank.round += 1;
    rank.has_sent = false;
    true
}

/// Everyone's `Out` in the end.
fn run(
    algorithm: &dyn Algorithm,
    op: Collective,
    sizes: &[usize],
    combine: fn(u64, u64) -> u64,
) -> Vec<Vec<Vec<u64>>> {
    let world = sizes.len() as u32;
    let size = |space, rank, chunk| sizes[op.vector_chunk(space, rank, chunk) as usize];
    let mut ranks: Vec<Rank> = (0..world)
        .map(|rank| {
            let program = algorithm.program(op, world, rank);
            let chunks = |space| 0..op.chunks(space, world, rank);
            let input =
                chunks(Space::In).map(|chunk| data(rank, chunk, size(Space::In, rank, chunk)));
            let is_root = op.root() == Some(rank);
            let output = chunks(Space::Out).map(|chunk| {
                let len = size(Space::Out, rank, chunk);
                let given = is_root && matches!(op, Collective::Broadcast { .. });
                if given { data(rank, chunk, len) } else { vec![0; len] }
            });
            let scratch = program.scratch().iter().map(|like| vec![0; sizes[*like as usize]]);
            let spaces = [input.collect(), output.collect(), scratch.collect()];
            Rank { program, round: 0, has_sent: false, spaces }
        })
        .collect();
    let mut mail = Mail::new();
    loop {
        // Not in step: later ranks go first.
        let moved = (0..world).rev().filter(|rank| go_on(&mut ranks, *rank, &mut mail, combine));
        if moved.count() == 0 {
            break;
        }
    }
    assert!(mail.values().all(VecDeque::is_empty), "every message was read");
    let unfinished = |rank: &&Rank| rank.round < rank.program.len();
    assert!(!ranks.iter().any(|rank| unfinished(&rank)), "everyone has ended");
    let output = |rank: Rank| {
        let [_, output, _] = rank.spaces;
        output
    };
    ranks.into_iter().map(output).collect()
}

/// What a rank gives in a chunk.
fn data(rank: u32, chunk: u32, len: usize) -> Vec<u64> {
    let mix = |at| u64::from(rank + 1).pow(3) * 1_000_003 + u64::from(chunk) * 1_009 + at;
    (0..len as u64).map(mix).collect()
}

/// What everyone must have, computed directly.
fn expected(op: Collective, sizes: &[usize]) -> Vec<Vec<Vec<u64>>> {
    let world = sizes.len() as u32;
    let total = |chunk: u32| -> Vec<u64> {
        let len = sizes[chunk as usize];
        (0..len).map(|at| (0..world).map(|rank| data(rank, chunk, len)[at]).sum()).collect()
    };
    let chunk = |rank: u32, chunk: u32| match op {
        Collective::AllReduce | Collective::Reduce { .. } => total(chunk),
        Collective::ReduceScatter => total(rank),
        Collective::AllGather | Collective::Gather { .. } => data(chunk, 0, sizes[chunk as usize]),
        Collective::Broadcast { root } => data(root, chunk, sizes[chunk as usize]),
        Collective::Scatter { root } => data(root, rank, sizes[rank as usize]),
        Collective::AllToAll => data(chunk, rank, sizes[0]),
        Collective::Barrier => unreachable!("a barrier has no chunks"),
    };
    (0..world)
        .map(|rank| (0..op.chunks(Space::Out, world, rank)).map(|it| chunk(rank, it)).collect())
        .collect()
}

fn compare(algorithm: &dyn Algorithm, op: Collective, sizes: &[usize]) {
    let even = vec![sizes[0]; sizes.len()];
    let sizes = if op == Collective::AllToAll { &even } else { sizes };
    let what = format!("{op} by {} of {sizes:?}", algorithm.name());
    assert_eq!(run(algorithm, op, sizes, sum), expected(op, sizes), "{what}");
    if op == Collective::AllReduce {
        let results = run(algorithm, op, sizes, odd);
        assert!(results.iter().all(|result| *result == results[0]), "{what}: not all the same");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn programs_compute_what_they_should(
        sizes in prop::collection::vec(0..4usize, 1..20),
        root: prop::sample::Index,
    ) {
        let world = sizes.len() as u32;
        for op in Collective::all(root.index(sizes.len()) as u32) {
            for algorithm in algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                compare(algorithm, op, &sizes);
            }
        }
    }

    #[test]
    fn hierarchies_compute_what_they_should(
        sizes in prop::collection::vec(0..3usize, 1..16),
        hosts in prop::collection::vec(0..4u32, 16),
        root: prop::sample::Index,
        sorted: bool,
    ) {
        let world = sizes.len() as u32;
        let mut hosts = hosts[..sizes.len()].to_vec();
        if sorted {
            hosts.sort_unstable();
        }
        let layout = Layout::new(&hosts);
        for algorithm in [Hierarchical::new(layout.clone()), Hierarchical::shares(layout)] {
            for op in Collective::all(root.index(sizes.len()) as u32) {
                if algorithm.supports(op, world) {
                    compare(&algorithm, op, &sizes);
                }
            }
        }
    }
}
