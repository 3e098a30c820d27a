//! The order of deaths, from their first signs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Puts ends into the order of their first signs. A place is the number of a process.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Whose lifeline broke or who ended, by the first of the two.
    signs: VecDeque<Sign<T>>,
}

#[derive(Debug)]
struct Sign<T> {
    place: usize,
    end: End<T>,
}

#[derive(Debug)]
enum End<T> {
    /// The lifeline broke then; the end should follow at once.
    Near(Instant),
    /// The end has come.
    Came(T),
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { signs: VecDeque::new() }
    }
}

impl<T> Order<T> {
    /// A process let go of its lifeline. If it does not end soon, it did so on purpose.
    pub(crate) fn lifeline_broke(&mut self, place: usize, now: Instant) {
        self.signs.push_back(Sign { place, end: End::Near(now) });
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, place: usize, exit: T) {
        match self.signs.iter_mut().find(|sign| sign.place == place) {
            Some(sign) => sign.end = End::Came(exit),
            None => self.signs.push_back(Sign { place, end: End::Came(exit) }),
        }
    }

    /// Takes the ends that nobody comes before any more.
    pub(crate) fn ready(&mut self, now: Instant) -> Vec<T> {
        let mut ready = Vec::new();
        while let Some(sign) = self.signs.pop_front() {
            match sign.end {
                End::Came(exit) => ready.push(exit),
                End::Near(since) if now >= since + PATIENCE => {}
                End::Near(_) => {
                    self.signs.push_front(sign);
                    break;
                }
            }
        }
        ready
    }

    /// When to look again even if nothing happens.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        match self.signs.front()?.end {
            End::Near(since) => Some(since + PATIENCE),
            End::Came(_) => None,
        }
    }
}

/// How long the end may follow the breaking of the lifeline, on a machine with too much to do.
const PATIENCE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_waits_for_one_whose_lifeline_broke_before() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.lifeline_broke(1, now);
        order.lifeline_broke(0, now);
        order.ended(0, "follower");
        assert!(order.ready(now).is_empty());
        assert!(order.next_look() > Some(now));
        order.ended(1, "first");
        assert_eq!(order.ready(now), ["first", "follower"]);
        assert_eq!(order.next_look(), None);
    }

    #[test]
    fn an_end_without_a_lifeline_counts_from_itself() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.ended(3, "a");
        order.lifeline_broke(2, now);
        order.ended(4, "b");
        assert_eq!(order.ready(now), ["a"]);
        order.ended(2, "c");
        assert_eq!(order.ready(now), ["c", "b"]);
    }

    #[test]
    fn a_process_that_lets_go_of_its_lifeline_and_lives_holds_up_nobody_for_long() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.lifeline_broke(0, now);
        order.ended(1, "a");
        assert!(order.ready(now).is_empty());
        let later = order.next_look().unwrap();
        assert_eq!(order.ready(later), ["a"]);
        order.ended(0, "b");
        assert_eq!(order.ready(later), ["b"]);
    }

    #[test]
    fn a_lifeline_that_breaks_after_the_end_says_nothing() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.ended(0, "a");
        assert_eq!(order.ready(now), ["a"]);
        order.lifeline_broke(0, now);
        order.ended(1, "b");
        assert_eq!(order.ready(now + PATIENCE), ["b"]);
    }
}
