//! Who takes part, and whether it is still alive. Pure: time comes in as an argument.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::secret::random;

/// One host's launcher, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its own name for itself, new with each start.
    pub id: NodeId,
    /// The host's name.
    pub host: String,
    /// The address under which the others reach it.
    pub address: String,
    /// How many ranks it runs.
    pub slots: u32,
    /// A port that it keeps free for the program, should rank 0 be here.
    pub port: u16,
    /// The place in the order of nodes that it asks for.
    pub rank: Option<u32>,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.host, self.address)
    }
}

/// Tells nodes apart, also two that one host runs one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub(crate) u64);

impl NodeId {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self> {
        let [a, b, c, d, e, f, g, h, ..] = random()?;
        Ok(Self(u64::from_le_bytes([a, b, c, d, e, f, g, h])))
    }

    /// One for tests that want to choose it.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A heart as another node hears it: a count that grows while it beats. Only the listener's own
/// clock is used, so the clocks of two hosts need not agree.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    count: i64,
    listened: Instant,
    silent: Duration,
    /// How much of the time between two looks counts.
    attention: Duration,
}

impl Pulse {
    /// Begins to listen. However long it is until the next look, no more than `attention` of it
    /// counts as silence: a listener that was itself stopped has not listened, and what it missed
    /// may be on its way.
    pub fn new(now: Instant, attention: Duration) -> Self {
        Self { count: i64::MIN, listened: now, silent: Duration::ZERO, attention }
    }

    /// Hears the count as it is now, and says for how long it has not grown.
    pub fn hear(&mut self, now: Instant, count: i64) -> Duration {
        let since = now.saturating_duration_since(self.listened).min(self.attention);
        self.silent = if count == self.count { self.silent + since } else { Duration::ZERO };
        (self.count, self.listened) = (count, now);
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_measured_from_the_last_beat_heard() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::new(start, Duration::from_secs(60));
        assert_eq!(pulse.hear(after(1), 7), Duration::ZERO);
        assert_eq!(pulse.hear(after(4), 7), Duration::from_secs(3));
        assert_eq!(pulse.hear(after(6), 7), Duration::from_secs(5));
        assert_eq!(pulse.hear(after(7), 8), Duration::ZERO);
        assert_eq!(pulse.hear(after(17), 8), Duration::from_secs(10));
    }

    #[test]
    fn a_heart_that_never_beat_is_silent_since_the_first_look() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start, Duration::from_secs(60));
        pulse.hear(start, 0);
        assert_eq!(pulse.hear(start + Duration::from_secs(2), 0), Duration::from_secs(2));
    }

    #[test]
    fn a_listener_that_was_stopped_does_not_blame_the_heart() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::new(start, Duration::from_secs(2));
        pulse.hear(after(1), 7);
        assert_eq!(pulse.hear(after(1000), 7), Duration::from_secs(2));
        assert_eq!(pulse.hear(after(1001), 7), Duration::from_secs(3));
        assert_eq!(pulse.hear(after(1002), 8), Duration::ZERO);
    }
}
