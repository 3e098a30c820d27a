use super::*;
use crate::algo;
use crate::cost::{Case, Network, predict};

fn layouts() -> Vec<Layout> {
    let mut layouts: Vec<Layout> = [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (7, 7),
        (8, 2),
        (8, 8),
        (16, 4),
        (20, 3),
        (24, 3),
        (31, 31),
        (48, 6),
        (64, 8),
        (64, 64),
        (100, 100),
        (128, 16),
    ]
    .into_iter()
    .map(|(world, hosts)| Layout::even(world, hosts))
    .collect();
    layouts.push(Layout::new(&[0, 1, 0, 1, 0, 2, 2, 1]));
    layouts
}

#[test]
fn something_is_chosen_for_everything_and_can_be_done() {
    for layout in layouts() {
        for op in Collective::all(layout.world() / 2) {
            for bytes in [0, 8, 4096, 100_000, 1 << 20, 1 << 30] {
                let choice = choose(op, bytes, &layout);
                let algorithm = algo::named(choice.algorithm, &layout).unwrap();
                assert!(algorithm.supports(op, layout.world()), "{choice:?} for {op}, {layout:?}");
            }
        }
    }
}

#[test]
fn no_choice_is_far_from_the_best_that_the_model_knows() {
    let mut worst = Vec::new();
    for network in ["25g", "100g"] {
        let network: Network = network.parse().unwrap();
        for layout in layouts().into_iter().filter(|it| it.world() <= 100) {
            for op in Collective::all(0) {
                for bytes in [8, 1 << 12, 1 << 16, 1 << 20, 1 << 23] {
                    let chosen = choose(op, bytes, &layout).algorithm;
                    let case = Case::new(op, bytes, layout.clone(), network);
                    let seconds = |name: &str| {
                        let algorithm = algo::named(name, &layout).unwrap();
                        predict(&*algorithm, &case).ok().map(|it| (it.seconds, name.to_owned()))
                    };
                    let (time, _) = seconds(chosen).unwrap();
                    let best = algo::NAMES.into_iter().filter_map(seconds);
                    let (best, name) = best.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                    if time > MOST_BEHIND * best {
                        let (world, hosts) = (layout.world(), layout.count());
                        worst.push(format!(
                            "{op}, {bytes} bytes, {world} ranks on {hosts}: {chosen} takes {:.1} \
                             times as long as {name}",
                            time / best
                        ));
                    }
                }
            }
        }
    }
    assert!(worst.is_empty(), "{}", worst.join("\n"));
}

#[test]
fn every_entry_has_a_reason_and_an_algorithm() {
    for entry in table() {
        assert!(algo::NAMES.contains(&entry.choice.algorithm), "{entry:?}");
        assert!(entry.choice.reason.len() > 10, "{entry:?}");
    }
}

/// The limits of the table are round numbers for several networks; more would be a mistake.
const MOST_BEHIND: f64 = 2.0;
