//! Drives the runs of all ranks in one thread, in random order.

use super::super::links::mem::{Dice, Mem, Network, Room};
use super::super::{Cache, Choices, Progress, Run};
use crate::call::Call;
use crate::error::Result;

/// What was seen on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) longest: usize,
    pub(super) most_away: usize,
}

/// Carries out one call on all ranks.
pub(super) fn carry_out(
    calls: &[Call<'_>],
    choices: &Choices,
    room: Room,
    seed: u64,
) -> Result<Seen> {
    let world = calls.len();
    let network = Network::new(room, seed);
    let mut dice = Dice(seed.rotate_left(17) | 1);
    let mut caches: Vec<Cache> = calls.iter().map(|_| Cache::default()).collect();
    let mut links: Vec<Mem> = (0..world).map(|me| Mem::new(me, &network)).collect();
    let mut runs = Vec::new();
    for (me, (call, cache)) in calls.iter().zip(&mut caches).enumerate() {
        runs.push(Some(Run::new(call, me, choices, cache)?));
    }
    let mut stuck = 0;
    while runs.iter().any(Option::is_some) {
        let me = dice.roll(world);
        let Some(run) = &mut runs[me] else { continue };
        match run.go_on(&mut links[me])? {
            Progress::Done => {
                assert!(run.awaits().is_empty(), "who has ended waits for nobody");
                runs[me].take().expect("it was there").end(&mut caches[me]);
                stuck = 0;
            }
            Progress::Moved => stuck = 0,
            Progress::Stuck => stuck += 1,
        }
        assert!(stuck < 200 * world, "ranks wait for each other: {}", waiting(&runs));
    }
    let network = network.borrow();
    assert!(network.is_empty(), "nothing is left on the way");
    Ok(Seen { longest: network.longest, most_away: network.most_away })
}

fn waiting(runs: &[Option<Run<'_>>]) -> String {
    let of = |(me, run): (usize, &Option<Run<'_>>)| {
        run.as_ref().map(|run| format!("rank {me} for {:?}", run.awaits()))
    };
    runs.iter().enumerate().filter_map(of).collect::<Vec<_>>().join(", ")
}
