//! A client that waits costs next to nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use consort_store::{Deadline, Error, Secret, Server, Store, TcpStore};
use rustix::time::{ClockId, clock_gettime};

#[test]
fn long_waits_between_quick_calls_leave_the_processor_to_others() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let until = Deadline::after(Duration::from_secs(60));
    let store = TcpStore::connect(server.address(), &secret, until).unwrap();
    let before = processor_time();
    for count in 1..=60 {
        let waited = store.get_changed("state", b"", Deadline::after(Duration::from_millis(20)));
        assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
        assert_eq!(store.add("beat", 1).unwrap(), count);
    }
    let used = processor_time() - before;
    assert!(used < Duration::from_millis(200), "60 waits of 20 ms took {used:?} of the processor");
}

/// What this thread has used.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}
