//! How threads that bring gradients hand buckets over in one order.
//!
//! Two locks: one for what is known of the pass, which is held for moments, and one for whoever hands
//! buckets over, which is held until that is done. Whoever completes a bucket comes here. It asks for the
//! next bucket only while it may hand over, so between a bucket's turn and its way nobody comes in; and
//! it asks again after each, so what others complete meanwhile is not left lying.

use std::sync::{Mutex, PoisonError};

/// Something that one thread at a time may use.
pub(crate) trait Lock {
    type Guarded;
    fn with<R>(&self, act: impl FnOnce(&mut Self::Guarded) -> R) -> R;
}

impl<T> Lock for Mutex<T> {
    type Guarded = T;

    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Hands over, in their order, all buckets that can go.
pub(crate) fn dispatch<K: Lock, L: Lock, E>(
    known: &K,
    launcher: &L,
    next: impl Fn(&mut K::Guarded) -> Result<Option<usize>, E>,
    mut hand_over: impl FnMut(&mut L::Guarded, usize) -> Result<(), E>,
) -> Result<(), E> {
    launcher.with(|launcher| {
        while let Some(index) = known.with(&next)? {
            hand_over(launcher, index)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod models {
    use std::convert::Infallible;

    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::super::ledger::{Ledger, Put};
    use super::{Lock, dispatch};

    struct ModelLock<T>(Mutex<T>);

    impl<T> Lock for ModelLock<T> {
        type Guarded = T;

        fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
            act(&mut self.0.lock().unwrap())
        }
    }

    struct Shared {
        ledger: ModelLock<Ledger>,
        launched: ModelLock<Vec<usize>>,
    }

    impl Shared {
        fn new(buckets: &[Vec<usize>], comes: &[u32]) -> Arc<Self> {
            let ledger = ModelLock(Mutex::new(Ledger::new(buckets, comes)));
            Arc::new(Self { ledger, launched: ModelLock(Mutex::new(Vec::new())) })
        }

        fn bring(&self, index: usize) {
            self.ledger.with(|ledger| ledger.take(index)).unwrap();
            if self.ledger.with(|ledger| ledger.put(index)) == Put::Complete {
                self.launch();
            }
        }

        fn launch(&self) {
            let next = |ledger: &mut Ledger| Ok::<_, Infallible>(ledger.next());
            let hand_over = |launched: &mut Vec<usize>, index| {
                launched.push(index);
                Ok(())
            };
            dispatch(&self.ledger, &self.launched, next, hand_over).unwrap();
        }

        fn launched(&self) -> Vec<usize> {
            self.launched.with(|launched| launched.clone())
        }
    }

    fn check(threads: &'static [&'static [usize]], buckets: &'static [&'static [usize]]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let buckets: Vec<Vec<usize>> = buckets.iter().map(|it| it.to_vec()).collect();
            let count = buckets.iter().map(Vec::len).sum();
            let shared = Shared::new(&buckets, &vec![1; count]);
            let bring = |mine: &'static [usize]| {
                let shared = shared.clone();
                thread::spawn(move || mine.iter().for_each(|&index| shared.bring(index)))
            };
            let threads: Vec<_> = threads.iter().map(|mine| bring(mine)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(shared.launched(), (0..buckets.len()).collect::<Vec<_>>());
        });
    }

    /// Scenario *two finish at once*.
    #[test]
    fn buckets_that_become_complete_at_once_go_in_their_order() {
        check(&[&[1], &[0]], &[&[0], &[1]]);
        check(&[&[2, 0], &[1]], &[&[0], &[1], &[2]]);
    }

    /// Scenario *halves of a bucket*.
    #[test]
    fn a_bucket_that_threads_fill_together_goes_once() {
        check(&[&[0, 3], &[1, 2]], &[&[0, 1], &[2, 3]]);
    }

    /// Scenario *two parts at once*.
    #[test]
    fn a_gradient_that_comes_in_parts_is_whole_before_it_goes() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Shared::new(&[vec![0]], &[2]);
            let copied = Arc::new(Mutex::new(0));
            let bring = |shared: Arc<Shared>, copied: Arc<Mutex<u32>>| {
                shared.ledger.with(|ledger| ledger.take(0)).unwrap();
                *copied.lock().unwrap() += 1;
                if shared.ledger.with(|ledger| ledger.put(0)) == Put::Complete {
                    assert_eq!(*copied.lock().unwrap(), 2);
                    shared.launch();
                }
            };
            let (other, its) = (shared.clone(), copied.clone());
            let thread = thread::spawn(move || bring(other, its));
            bring(shared.clone(), copied);
            thread.join().unwrap();
            assert_eq!(shared.launched(), [0]);
        });
    }

    /// Scenario *given up meanwhile*.
    #[test]
    fn what_is_given_up_when_backward_ends_goes_in_its_place() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Shared::new(&[vec![0], vec![1, 2]], &[1; 3]);
            let other = shared.clone();
            let thread = thread::spawn(move || other.bring(1));
            shared.bring(0);
            thread.join().unwrap();
            // Whoever ends the pass is alone: it owns it.
            shared.ledger.with(|ledger| ledger.give_up(2));
            shared.launch();
            assert_eq!(shared.launched(), [0, 1]);
        });
    }
}
