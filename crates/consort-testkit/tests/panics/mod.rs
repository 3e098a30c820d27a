//! What a test fails with.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic says.
pub(crate) fn panic_of<T>(body: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => match payload.downcast::<String>() {
            Ok(words) => *words,
            Err(payload) => (*payload.downcast::<&str>().expect("words")).to_owned(),
        },
    }
}
