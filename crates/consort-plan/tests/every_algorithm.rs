//! Every algorithm, every operation, every world.

use consort_plan::algo::{self, Algorithm};
use consort_plan::check::{self, Check, Order};
use consort_plan::{Collective, Step};

/// The roots that make a difference: the ends and the middle.
fn roots(world: u32) -> Vec<u32> {
    let mut roots = vec![0, world / 2, world - 1];
    roots.dedup();
    roots
}

/// Every operation with the roots that make a difference.
fn operations(world: u32) -> Vec<Collective> {
    let mut operations: Vec<Collective> = Vec::new();
    for root in roots(world) {
        for op in Collective::all(root) {
            if !operations.contains(&op) {
                operations.push(op);
            }
        }
    }
    operations
}

fn proved(algorithm: &dyn Algorithm, op: Collective, world: u32) -> check::Report {
    check::algorithm(algorithm, op, world).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn every_world_up_to_64_is_proved() {
    for world in 1..=64 {
        for op in operations(world) {
            for algorithm in algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                proved(algorithm, op, world);
            }
        }
    }
}

#[test]
fn every_operation_has_two_algorithms_in_every_world() {
    for world in (1..=64).chain(SAMPLED) {
        for op in Collective::all(0) {
            let supporting = algo::ALL.into_iter().filter(|it| it.supports(op, world)).count();
            assert!(supporting >= 2, "{op} between {world} ranks");
        }
    }
}

#[test]
fn sampled_worlds_up_to_255_are_proved() {
    prove_sampled(&SAMPLED[..6]);
}

#[test]
fn sampled_worlds_up_to_1024_are_proved() {
    prove_sampled(&SAMPLED[6..]);
}

/// Out of place, where programs are not too long.
fn prove_sampled(worlds: &[u32]) {
    for &world in worlds {
        for op in Collective::all(world / 3) {
            for algorithm in algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                let steps = algorithm.program(op, world, world / 3).steps().len() as u64;
                if steps * u64::from(world) < MOST_STEPS {
                    let program = |rank| algorithm.program(op, world, rank);
                    let programs: Vec<_> = (0..world).map(program).collect();
                    let name = algorithm.name().to_owned();
                    let check = Check { name, ..Check::new(op, world) };
                    check.run(&programs).unwrap_or_else(|fault| panic!("{fault}"));
                }
            }
        }
    }
}

#[test]
fn a_ring_of_1024_is_proved() {
    let ring = algo::by_name("ring").unwrap();
    let op = Collective::AllReduce;
    let programs: Vec<_> = (0..1024).map(|rank| ring.program(op, 1024, rank)).collect();
    let report = Check::new(op, 1024).run(&programs).unwrap();
    assert_eq!((report.rounds, report.sent), (2046, 2046));
}

#[test]
fn values_are_combined_in_the_order_of_ranks_but_for_two_algorithms() {
    for world in 2..=40 {
        for op in operations(world) {
            for algorithm in algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                let (name, order) = (algorithm.name(), proved(algorithm, op, world).order);
                let mixed = match (name, op) {
                    // The farthest partner first.
                    ("halving", Collective::ReduceScatter) => world > 3,
                    // The root first, then the others turned by one.
                    ("double_tree", Collective::Reduce { .. }) => world > 2 && world % 2 == 0,
                    _ => false,
                };
                assert_eq!(order == Order::Mixed, mixed, "{op} by {name} between {world} ranks");
            }
        }
    }
}

#[test]
fn direct_exchanges_may_be_uneven() {
    for (name, uneven) in [("flat", true), ("pairwise", true), ("bruck", false)] {
        let algorithm = algo::by_name(name).unwrap();
        assert_eq!(proved(algorithm, Collective::AllToAll, 6).uneven, uneven, "{name}");
    }
}

#[test]
fn steps_are_small() {
    assert!(size_of::<Step>() <= 40);
}

/// Larger programs take more than a moment; one of them has a test of its own.
const MOST_STEPS: u64 = 300_000;

/// Primes, powers of two and their neighbours, and round numbers.
const SAMPLED: [u32; 9] = [65, 96, 100, 127, 128, 255, 511, 777, 1024];
