//! Children that tests fork.

use std::io::{Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a forked child finds.
pub(crate) fn in_a_child(find: impl FnOnce() -> Vec<String>) -> Vec<String> {
    let (mut hear, mut tell) = pipe().unwrap();
    // SAFETY: the child does nothing but what is tried here, and ends. No thread of the rank has a lock of the
    // allocator or of standard output that the child would wait for.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child can be had");
    if child == 0 {
        let parent = rustix::process::Signal::KILL;
        let _ = rustix::process::set_parent_process_death_signal(Some(parent));
        // SAFETY: a signal that nobody handles ends the child.
        unsafe { libc::alarm(20) };
        let found = catch_unwind(AssertUnwindSafe(find))
            .unwrap_or_else(|panic| vec![format!("panic: {:?}", panic.downcast_ref::<String>())]);
        let _ = tell.write_all(found.join("\n").as_bytes());
        drop(tell);
        // SAFETY: ends the child, and runs nothing of its parent's.
        unsafe { libc::_exit(0) };
    }
    drop(tell);
    let mut found = String::new();
    hear.read_to_string(&mut found).unwrap();
    let mut status = 0;
    // SAFETY: the status is ours to be written.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(waited == child && status == 0, "the child ended with {status:x}: {found}");
    found.lines().map(str::to_owned).collect()
}
