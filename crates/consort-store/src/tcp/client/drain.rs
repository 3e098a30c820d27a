//! Looking after calls that were given up.
//!
//! Their answers come all the same, and may be large. If nobody read them, the server would keep
//! them, would read nothing more from us, and would in the end take us for dead. So as long as
//! some are to come, and only then, a thread of its own takes the roles that no caller has.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::link::Link;
use super::spin::Awaited;
use crate::deadline::Deadline;

/// Starts the thread. It ends when everything has come, or with the connection.
pub(super) fn start(link: &Arc<Link>) {
    let weak = Arc::downgrade(link);
    let name = "consort-store-drain".to_owned();
    if std::thread::Builder::new().name(name).spawn(move || drain(&weak)).is_err() {
        // Without a thread the next call reads what has come meanwhile.
        link.desk().draining = false;
    }
}

/// Lets go of the connection after every turn, so that it is closed soon after its last handle.
fn drain(link: &Weak<Link>) {
    while let Some(link) = link.upgrade() {
        let mut desk = link.desk();
        if desk.is_drained() || desk.broken.is_some() {
            desk.draining = false;
            return;
        }
        drop(link.attend(desk, Awaited::Others, Deadline::after(TURN)));
    }
}

const TURN: Duration = Duration::from_secs(1);
