//! What happens when: pure, from a seed.

use std::time::Duration;

/// Something that happens to the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// One of them is killed: this one, of those who are alive.
    Kill(u32),
    /// Another comes.
    Come,
}

/// All that happens, one after the other.
#[derive(Debug)]
pub(super) struct Plan {
    state: u64,
    most: u32,
}

impl Plan {
    /// For so many ranks to begin with.
    pub(super) fn new(seed: u64, ranks: u32) -> Self {
        Self { state: seed, most: ranks + ranks / 2 + 1 }
    }

    /// How long until something happens.
    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_millis(500 + self.throw(1500))
    }

    /// What happens to so many who are alive. One is always left.
    pub(super) fn next(&mut self, alive: u32) -> Event {
        match (alive, self.throw(2)) {
            (0 | 1, _) => Event::Come,
            (alive, coin) if coin == 0 || alive >= self.most => {
                Event::Kill(self.throw(u64::from(alive)) as u32)
            }
            _ => Event::Come,
        }
    }

    /// A number below another. The steps of the sequence are those of a Weyl sequence; what comes out is
    /// mixed.
    fn throw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33) % below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(seed: u64) -> Vec<(Duration, Event)> {
        let (mut plan, mut alive) = (Plan::new(seed, 4), 4);
        let mut event = || {
            let event = plan.next(alive);
            match event {
                Event::Kill(which) => {
                    assert!(which < alive);
                    alive -= 1;
                }
                Event::Come => alive += 1,
            }
            assert!((1..=7).contains(&alive), "{alive}");
            (plan.pause(), event)
        };
        (0..1000).map(|_| event()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_events_and_another_others() {
        assert_eq!(events(3), events(3));
        assert_ne!(events(3), events(4));
    }

    #[test]
    fn something_of_each_kind_happens_every_other_second() {
        for seed in 0..20 {
            let events = events(seed);
            assert!(events.iter().all(|(pause, _)| (500..2000).contains(&pause.as_millis())));
            let kills = events.iter().filter(|(_, event)| *event != Event::Come).count();
            assert!((400..600).contains(&kills), "{kills} of 1000");
        }
    }
}
