//! Who is asked whether to wait on, while a call waits for NCCL.
//!
//! A call of a communicator that does not block is in progress until all ranks have come to it. What else may have
//! happened meanwhile NCCL cannot know: that a rank has died, or that nobody wants the result any more. Whoever does
//! makes its calls [`watched`].

use std::cell::RefCell;
use std::rc::Rc;

/// Has calls that `body` makes on this thread, and that wait, ask now and then why to give up.
pub(crate) fn watched<T>(
    ask: impl Fn() -> Option<String> + 'static,
    body: impl FnOnce() -> T,
) -> T {
    let before = ASKED.replace(Some(Rc::new(ask)));
    let _restored = Restored(before);
    body()
}

/// Why a call of this thread is to wait no longer, if somebody says so.
pub(super) fn why_give_up() -> Option<String> {
    // Whoever is asked may make calls itself.
    let asked = ASKED.with_borrow(Clone::clone)?;
    asked()
}

type Ask = Rc<dyn Fn() -> Option<String>>;

/// Who was asked before is asked again when this is dropped.
struct Restored(Option<Ask>);

impl Drop for Restored {
    fn drop(&mut self) {
        ASKED.set(self.0.take());
    }
}

thread_local! {
    static ASKED: RefCell<Option<Ask>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_ask_whoever_watches_them_and_nobody_afterwards() {
        assert_eq!(why_give_up(), None);
        watched(
            || Some("outer".to_owned()),
            || {
                watched(
                    || Some("inner".to_owned()),
                    || assert_eq!(why_give_up().unwrap(), "inner"),
                );
                assert_eq!(why_give_up().unwrap(), "outer");
            },
        );
        let panicked = std::panic::catch_unwind(|| watched(|| Some(String::new()), || panic!("!")));
        assert!(panicked.is_err());
        assert_eq!(why_give_up(), None);
    }
}
