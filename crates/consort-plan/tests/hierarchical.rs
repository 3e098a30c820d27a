//! Algorithms made of one inside hosts and one between them.

use consort_plan::algo::{self, Algorithm, Hierarchical};
use consort_plan::check::{self, Order, Report};
use consort_plan::{Collective, Layout};

fn proved(algorithm: &Hierarchical, op: Collective, world: u32) -> Report {
    check::algorithm(algorithm, op, world).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Proves every operation that an algorithm supports, for every root.
fn prove_all(algorithm: &Hierarchical, world: u32) -> usize {
    let mut proofs = 0;
    for root in 0..world {
        for op in Collective::all(root).into_iter().filter(|op| algorithm.supports(*op, world)) {
            if root == 0 || op.root().is_some() {
                proved(algorithm, op, world);
                proofs += 1;
            }
        }
    }
    proofs
}

/// So many ranks on each host.
fn blocks(sizes: &[u32]) -> Layout {
    let host_of_rank: Vec<u32> =
        (0..).zip(sizes).flat_map(|(host, size)| vec![host; *size as usize]).collect();
    Layout::new(&host_of_rank)
}

#[test]
fn every_even_layout_is_proved() {
    for world in 1..=24 {
        for hosts in 1..=world {
            let algorithm = Hierarchical::new(Layout::even(world, hosts));
            assert_eq!(prove_all(&algorithm, world), 4 + 4 * world as usize);
        }
    }
}

#[test]
fn hosts_may_differ_in_size() {
    for sizes in [&[1, 5, 2][..], &[4, 1], &[3, 3, 1, 2], &[1, 1, 6], &[7]] {
        let layout = blocks(sizes);
        prove_all(&Hierarchical::new(layout.clone()), layout.world());
    }
}

#[test]
fn ranks_dealt_out_to_hosts_keep_what_needs_no_order() {
    let layout = Layout::new(&[0, 1, 2, 0, 1, 2, 0, 1]);
    let algorithm = Hierarchical::new(layout);
    assert!(!algorithm.supports(Collective::AllGather, 8));
    assert_eq!(prove_all(&algorithm, 8), 2 + 2 * 8);
}

#[test]
fn shares_are_proved_on_equal_hosts() {
    for (world, hosts) in [(2, 1), (4, 2), (6, 3), (6, 2), (12, 4), (24, 4), (64, 8)] {
        let algorithm = Hierarchical::shares(Layout::even(world, hosts));
        proved(&algorithm, Collective::AllReduce, world);
    }
    let dealt_out = Layout::new(&["a", "b", "c", "a", "b", "c"]);
    proved(&Hierarchical::shares(dealt_out), Collective::AllReduce, 6);
    let unequal = Hierarchical::shares(blocks(&[2, 3]));
    assert!(!unequal.supports(Collective::AllReduce, 5));
}

#[test]
fn every_algorithm_can_be_inside_or_between() {
    for inner in algo::ALL {
        for outer in algo::ALL {
            let layout = blocks(&[3, 2, 3]);
            let algorithm = Hierarchical::new(layout).inside(inner).between(outer);
            for op in Collective::all(4).into_iter().filter(|op| algorithm.supports(*op, 8)) {
                proved(&algorithm, op, 8);
            }
            let shares = Hierarchical::shares(Layout::even(12, 3)).inside(inner).between(outer);
            proved(&shares, Collective::AllReduce, 12);
        }
    }
}

#[test]
fn trees_inside_and_between_keep_the_order_of_ranks() {
    let binomial = algo::by_name("binomial").unwrap();
    let algorithm = Hierarchical::new(Layout::even(12, 4)).inside(binomial).between(binomial);
    assert_eq!(proved(&algorithm, Collective::AllReduce, 12).order, Order::Ranks);
}

#[test]
fn ranks_beside_the_leader_send_only_inside() {
    let layout = Layout::even(8, 2);
    let algorithm = Hierarchical::new(layout.clone());
    for rank in [1, 2, 3, 5, 6, 7] {
        let program = algorithm.program(Collective::AllReduce, 8, rank);
        let peers = program.steps().iter().filter_map(|step| match step {
            consort_plan::Step::Send { to, .. } => Some(*to),
            _ => None,
        });
        assert!(peers.into_iter().all(|peer| layout.together(rank, peer)));
    }
}
