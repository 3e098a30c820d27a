//! Functions that make something of a value, and panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;

use consort::functional::Pending;
use consort::{Error, Result};

use crate::meet::{LIMIT, block_on, block_on_and_tell};

fn panics(_: i32) -> Result<i32> {
    panic!("on purpose")
}

#[test]
fn what_panics_is_an_error_for_all_who_come_later() {
    let value = Pending::<_>::ready(1).map(panics);
    let clone = value.clone();
    catch_unwind(AssertUnwindSafe(|| clone.get().copied())).unwrap_err();
    assert!(matches!(value.get(), Err(Error::Abandoned { .. })));
    assert!(matches!(block_on(value.clone()), Err(Error::Abandoned { .. })));
    assert!(value.is_done());
    assert!(matches!(value.wait(), Err(Error::Abandoned { .. })));
}

#[test]
fn what_panics_when_it_is_polled_is_an_error_for_all_who_come_later() {
    let value = Pending::<_>::ready(1).map(panics);
    catch_unwind(AssertUnwindSafe(|| block_on(value.clone()))).unwrap_err();
    let later = catch_unwind(AssertUnwindSafe(|| block_on(value.clone())));
    assert!(matches!(later, Ok(Err(Error::Abandoned { .. }))), "{later:?}");
    let later = catch_unwind(AssertUnwindSafe(|| value.get().copied()));
    assert!(matches!(later, Ok(Err(Error::Abandoned { .. }))), "{later:?}");
}

#[test]
fn what_panics_wakes_those_who_await_it() {
    let (entered, is_entered) = channel();
    let (release, released) = channel::<()>();
    let value = Pending::<_>::ready(1).map(move |number: i32| {
        entered.send(()).unwrap();
        let _ = released.recv();
        panics(number)
    });
    let waiting = value.clone();
    thread::spawn(move || waiting.wait());
    is_entered.recv_timeout(LIMIT).expect("somebody waits");
    let (polled, is_polled) = channel();
    let (told, heard) = channel();
    thread::spawn(move || {
        let found = block_on_and_tell(value, || polled.send(()).unwrap());
        told.send(found).unwrap();
    });
    is_polled.recv_timeout(LIMIT).expect("it is polled");
    drop(release);
    let found = heard.recv_timeout(LIMIT).expect("whoever awaits a value is woken when it is lost");
    assert!(matches!(found, Err(Error::Abandoned { .. })), "{found:?}");
}
