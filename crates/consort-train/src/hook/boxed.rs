//! Hooks that are chosen at run time.

use super::{CommHook, Pending, Round};
use crate::bucket::Bucket;
use crate::error::Result;

/// A hook that is chosen at run time is one.
///
/// ```
/// use consort_train::{Average, Cast, CommHook, Int8, Options};
///
/// let chosen: Box<dyn CommHook> = match std::env::var("COMPRESSION").as_deref() {
///     Ok("int8") => Box::new(Int8::new()),
///     Ok("bf16") => Box::new(Cast::bf16()),
///     _ => Box::new(Average),
/// };
/// let options = Options::new().hook(chosen);
/// ```
impl CommHook for Box<dyn CommHook> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        (**self).start(bucket, round)
    }

    fn reset(&mut self) {
        (**self).reset();
    }

    fn works_on_devices(&self) -> bool {
        (**self).works_on_devices()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::hook::{Cast, Noop};

    /// Counts how often it is reset.
    struct Counting(Arc<Mutex<u32>>);

    impl CommHook for Counting {
        fn name(&self) -> &str {
            "counting"
        }

        fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
            Noop.start(bucket, round)
        }

        fn reset(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn one_in_a_box_is_called_by_its_name_and_forgets_when_it_is_told_to() {
        let resets = Arc::default();
        let hook: Box<dyn CommHook> = Box::new(Counting(Arc::clone(&resets)));
        let mut hook = Cast::bf16().with(hook);
        assert_eq!(hook.name(), "bf16 counting");
        hook.reset();
        assert_eq!(*resets.lock().unwrap(), 1);
    }
}
