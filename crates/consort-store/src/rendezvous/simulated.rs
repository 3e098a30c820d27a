//! Nodes that meet on a network without machines: seats and hearts as they are, a real server's room, and
//! hosts that crash, stand still, come late, and whose clocks disagree.

mod line;
mod world;

use consort_testkit::net::play;

use world::World;

#[test]
fn whoever_is_lost_the_others_agree_on_who_is_in_each_round_and_come_to_an_end() {
    let found = play("consort-store", "whoever_is_lost_the_others", SEEDS, |seed, shows| {
        World::new(seed, shows).run()
    });
    let Some([rounds, silent, crashed, stops, cuts, late, over]) = found else { return };
    // Worlds in which nothing happens would prove nothing.
    let least = [rounds / 3, silent * 4, crashed * 2, stops * 2, cuts * 2, late * 2, over];
    assert!(least.iter().all(|&count| count > SEEDS / 2), "{found:?} of {SEEDS}");
}

/// So many worlds are played.
const SEEDS: u64 = 1500;
