//! The clock that all processes of a machine share, in whatever network they are.

/// Nanoseconds since some moment that is the same for all.
pub(crate) fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
