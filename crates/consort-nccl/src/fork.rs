//! What a forked child finds of the tables that all threads of its parent share.
//!
//! A child has one thread, and the locks as they were: what another thread held would stay locked for ever, and the
//! child could not even look up that a handle is its parent's. So who forks holds all of them, and both it and
//! the child let go of them afterwards. They are held for moments only, and in the order of the list here where one
//! is taken while another is held.
//!
//! What a child has no use for is [each process's own](consort_sys::origin::PerProcess) instead: what `consort` keeps for
//! all threads, and the stores of ids. So a child can make communicators of its own.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;

use crate::{comm, event, failure, memory, order, record, stream, window};

/// Holds a table until what it gives is dropped.
type Hold = fn() -> Box<dyn Any>;

/// Called by the system when the library is loaded, before there is a thread that could fork.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_FIRST: extern "C" fn() = watch;

extern "C" fn watch() {
    // If there is no memory for it, forked children are as lucky as without.
    // SAFETY: they are functions of this library, with which the system forgets them.
    let _ = unsafe { pthread_atfork(Some(hold), Some(let_go), Some(let_go)) };
}

extern "C" fn hold() {
    // In a thread that is about to end it may be gone, as if nobody had asked.
    let _ = HELD.try_with(|held| held.borrow_mut().extend(ALL.map(|hold| hold())));
}

extern "C" fn let_go() {
    let _ = HELD.try_with(|held| held.borrow_mut().clear());
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

const ALL: [Hold; 8] = [
    order::hold_all,
    comm::hold_all,
    stream::hold_all,
    event::hold_all,
    window::hold_all,
    memory::hold_all,
    record::hold_all,
    failure::hold_all,
];
