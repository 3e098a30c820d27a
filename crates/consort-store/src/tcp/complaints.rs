//! How often the server complains about strangers. Pure: time comes in as an argument.

use std::time::{Duration, Instant};

/// Lets some lines through in each second and counts the others, so that a flood of strangers
/// does not become a flood in the log.
#[derive(Debug)]
pub(super) struct Complaints {
    since: Instant,
    made: u32,
    withheld: u64,
}

impl Complaints {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, made: 0, withheld: 0 }
    }

    /// Whether another line may be written, and how many have been withheld since the last one.
    pub(super) fn another(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.made) = (now, 0);
        }
        if self.made == PER_SECOND {
            self.withheld += 1;
            return None;
        }
        self.made += 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

const PER_SECOND: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_instead_of_written() {
        let start = Instant::now();
        let mut complaints = Complaints::new(start);
        let written = (0..1000).filter(|_| complaints.another(start).is_some()).count();
        assert_eq!(written, PER_SECOND as usize);
        let later = start + Duration::from_secs(2);
        assert_eq!(complaints.another(later), Some(1000 - u64::from(PER_SECOND)));
        assert_eq!(complaints.another(later), Some(0));
    }
}
