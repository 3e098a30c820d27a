//! The clock against what can be computed by hand.

use consort_plan::algo::{self, Hierarchical};
use consort_plan::cost::{
    CannotPredict, Case, Link, Network, Pipeline, Prediction, SlowLink, Straggler, predict,
};
use consort_plan::{Algorithm, Collective, Layout, Program};

const ALPHA: f64 = 1e-5;
const BETA: f64 = 1e-9;

/// One rank on each host, nothing but latency and bandwidth, vectors in one piece.
fn plain(op: Collective, bytes: u64, world: u32) -> Case {
    let link = Link { alpha: ALPHA, gap: 0.0, beta: BETA };
    let network = Network { inside: link, between: link, ports: 1, gamma: 0.0, copy: 0.0 };
    let pipeline = Pipeline { segment: u64::MAX, lanes: 1, stagger: 1 };
    Case { pipeline, ..Case::new(op, bytes, Layout::even(world, world), network) }
}

fn predicted(name: &str, case: &Case) -> Prediction {
    predict(algo::by_name(name).expect("a name"), case).unwrap_or_else(|error| panic!("{error}"))
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-9 + expected * 1e-9, "{what}: {found}, not {expected}");
}

#[test]
fn textbook_formulas_come_out() {
    let bytes = 1_u64 << 20;
    let all = bytes as f64 * BETA;
    for world in [2_u32, 4, 8, 16, 64] {
        let n = f64::from(world);
        let log = n.log2();
        let part = all / n;
        let reduce = plain(Collective::AllReduce, bytes, world);
        let expected = [
            ("ring", 2.0 * (n - 1.0) * (ALPHA + part)),
            ("pairwise", 2.0 * (n - 1.0) * (ALPHA + part)),
            ("doubling", log * (ALPHA + all)),
            ("halving", 2.0 * log * ALPHA + 2.0 * (n - 1.0) * part),
            ("binomial", 2.0 * log * (ALPHA + all)),
        ];
        for (name, seconds) in expected {
            assert_close(predicted(name, &reduce).seconds, seconds, name);
        }
        let broadcast = plain(Collective::Broadcast { root: 0 }, bytes, world);
        assert_close(predicted("binomial", &broadcast).seconds, log * (ALPHA + all), "broadcast");
        let flat = (n - 1.0) * all + ALPHA;
        assert_close(predicted("flat", &broadcast).seconds, flat, "flat broadcast");
    }
}

/// An algorithm that does not say that its ranks are alike.
struct Secretive(&'static dyn Algorithm);

impl Algorithm for Secretive {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn supports(&self, op: Collective, world: u32) -> bool {
        self.0.supports(op, world)
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        self.0.program(op, world, rank)
    }
}

#[test]
fn one_host_stands_for_all_where_ranks_are_alike() {
    let network: Network = "25g".parse().unwrap();
    let mut compared = 0;
    for (world, hosts) in [(6, 6), (8, 2), (12, 4), (15, 5), (16, 2)] {
        for op in Collective::all(0) {
            let case = Case::new(op, 100_000, Layout::even(world, hosts), network);
            for algorithm in algo::ALL.into_iter().filter(|it| it.turns(op)) {
                let some = predict(algorithm, &case).unwrap();
                let all = predict(&Secretive(algorithm), &case).unwrap();
                assert_eq!((some.ranks_run, all.ranks_run), (world / hosts, world));
                // Who is first at a port that two reach at once is not the same on every host.
                let ratio = some.seconds / all.seconds;
                assert!((0.9..1.1).contains(&ratio), "{op} by {}: {ratio}", algorithm.name());
                if world == hosts {
                    assert_close(some.seconds, all.seconds, algorithm.name());
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 5 * 11);
}

#[test]
fn every_program_ends_on_the_clock() {
    for world in 1..=20 {
        for op in Collective::all(world / 2) {
            for hosts in [1, world] {
                let network: Network = "100g".parse().unwrap();
                let case = Case::new(op, 1 << 22, Layout::even(world, hosts), network);
                for algorithm in algo::ALL.into_iter().filter(|it| it.supports(op, world)) {
                    let prediction = predict(algorithm, &case).unwrap();
                    assert!(prediction.seconds.is_finite());
                    assert_eq!(prediction.seconds > 0.0, world > 1 || prediction.seconds > 0.0);
                }
            }
        }
    }
}

#[test]
fn segments_let_a_tree_send_all_the_time() {
    let mut case = plain(Collective::Broadcast { root: 0 }, 1 << 26, 64);
    let whole = predicted("double_tree", &case).seconds;
    case.pipeline = Pipeline { segment: 1 << 20, lanes: 16, stagger: 1 };
    let cut = predicted("double_tree", &case);
    assert_eq!(cut.segments, 64);
    assert!(cut.seconds < whole / 2.0, "{} against {whole}", cut.seconds);
    let least = (1_u64 << 26) as f64 * BETA;
    assert!(cut.seconds > least, "nothing is faster than the wire");
}

#[test]
fn extrapolation_is_close_to_running_all_segments() {
    let mut case = plain(Collective::AllReduce, 1 << 26, 16);
    case.pipeline = Pipeline { segment: 1 << 20, lanes: 2, stagger: 1 };
    for name in ["ring", "double_tree", "halving", "binomial"] {
        let prediction = predicted(name, &case);
        assert!(prediction.extrapolated);
        let mut shorter = case.clone();
        shorter.bytes /= 8;
        let part = predicted(name, &shorter);
        assert!(!part.extrapolated);
        let ratio = prediction.seconds / part.seconds;
        assert!((6.0..8.5).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn ranks_of_a_host_share_its_port() {
    let network: Network = "25g".parse().unwrap();
    let case = |hosts| Case::new(Collective::AllToAll, 1 << 24, Layout::even(16, hosts), network);
    assert!(
        predicted("pairwise", &case(2)).seconds > 2.0 * predicted("pairwise", &case(16)).seconds
    );
}

#[test]
fn leaders_spare_the_network() {
    let network: Network = "25g".parse().unwrap();
    let layout = Layout::even(48, 8);
    let case = Case::new(Collective::AllReduce, 1 << 24, layout.clone(), network);
    let shares = predict(&Hierarchical::shares(layout), &case).unwrap().seconds;
    assert!(shares < predicted("halving", &case).seconds);
    assert!(shares < predicted("doubling", &case).seconds);
}

#[test]
fn a_late_rank_and_a_slow_link_are_felt() {
    let case = plain(Collective::AllReduce, 1 << 20, 16);
    let usual = predicted("ring", &case).seconds;
    let late = Case { straggler: Some(Straggler { rank: 3, delay: 1.0 }), ..case.clone() };
    let found = predicted("ring", &late).seconds;
    assert!((1.0..1.0 + 2.0 * usual).contains(&found), "{found}");
    let slow =
        Case { slow_link: Some(SlowLink { one: 5, other: 4, factor: 10.0 }), ..case.clone() };
    let found = predicted("ring", &slow).seconds;
    assert!((3.0 * usual..11.0 * usual).contains(&found), "{found} against {usual}");
    let elsewhere = Case { slow_link: Some(SlowLink { one: 5, other: 9, factor: 10.0 }), ..case };
    assert_close(predicted("ring", &elsewhere).seconds, usual, "a link that a ring does not use");
}

#[test]
fn what_is_too_large_is_said() {
    let case = plain(Collective::Broadcast { root: 0 }, 1 << 20, 16_384);
    let error = predict(algo::by_name("ring").unwrap(), &case).unwrap_err();
    assert!(matches!(error, CannotPredict::TooLarge { .. }), "{error}");
    let error = predict(algo::by_name("bruck").unwrap(), &case).unwrap_err();
    assert!(matches!(error, CannotPredict::Unsupported { .. }), "{error}");
}

#[test]
fn trees_of_65536_ranks_can_be_simulated() {
    let network: Network = "100g".parse().unwrap();
    let case = Case::new(Collective::AllReduce, 1 << 20, Layout::even(65_536, 8192), network);
    for name in ["binomial", "double_tree"] {
        let prediction = predicted(name, &case);
        assert!((1e-4..1.0).contains(&prediction.seconds), "{name}: {}", prediction.seconds);
    }
}
