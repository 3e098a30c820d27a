//! How long a group takes for how many bytes.

use std::time::Duration;

use super::nanoseconds;

/// What calls were measured to take: between two sizes on the straight line, beyond the last and before the
/// first on the line through the two that are nearest.
///
/// More bytes never take less. Whatever disturbs a measurement makes it longer, so if a larger call was
/// faster, it is the smaller one that was disturbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes and nanoseconds, by rising bytes, the first of none.
    points: Vec<(u64, u64)>,
}

impl Cost {
    /// Of these measurements; `None` if there are none of any bytes.
    pub(crate) fn new(measured: impl IntoIterator<Item = (usize, Duration)>) -> Option<Self> {
        let measured = measured.into_iter().filter(|(bytes, _)| *bytes > 0);
        let mut points: Vec<(u64, u64)> =
            measured.map(|(bytes, time)| (bytes as u64, nanoseconds(time))).collect();
        points.sort_unstable();
        // Of several for one size the fastest comes first.
        points.dedup_by_key(|(bytes, _)| *bytes);
        let mut least = u64::MAX;
        for (_, time) in points.iter_mut().rev() {
            least = least.min(*time);
            *time = least;
        }
        let first = *points.first()?;
        points.insert(0, (0, start(first, points.get(1).copied())));
        Some(Self { points })
    }

    /// How many nanoseconds a call with so many bytes takes.
    pub(crate) fn of(&self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        // The first to reach it, or the last if none does.
        let after = self.points.partition_point(|(point, _)| *point < bytes);
        let after = after.clamp(1, self.points.len() - 1);
        on_line(self.points[after - 1], self.points[after], bytes)
    }
}

/// What a call takes that moves nothing: on the line through the first two points, but not less than
/// nothing. With one point alone all of its time is for its bytes.
fn start((bytes, time): (u64, u64), second: Option<(u64, u64)>) -> u64 {
    let Some((more, longer)) = second else { return 0 };
    let rise = u128::from(longer - time) * u128::from(bytes) / u128::from(more - bytes);
    time.saturating_sub(u64::try_from(rise).unwrap_or(u64::MAX))
}

/// The line through two points, of which the second has more bytes and takes no less, at or after the
/// first.
fn on_line((from, least): (u64, u64), (to, most): (u64, u64), bytes: u64) -> u64 {
    let rise = u128::from(most - least) * u128::from(bytes - from) / u128::from(to - from);
    least.saturating_add(u64::try_from(rise).unwrap_or(u64::MAX))
}
