//! What a measuring process owes whoever asks it: answers in lines, and an end with it.

use std::error::Error;
use std::io::{self, Write};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;

/// Lets this process end with the one that asks.
///
/// # Errors
/// When that one is gone already.
pub(crate) fn end_with(asker: u32) -> Result<(), Box<dyn Error>> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The asker may have died before the kernel was asked.
    if getppid().map(Pid::as_raw_pid) != i32::try_from(asker).ok() {
        return Err("whoever asked is gone".into());
    }
    Ok(())
}

/// Answers with one line.
///
/// # Errors
/// When nobody hears it.
pub(crate) fn say(what: &impl Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(what)?)?;
    stdout.flush()
}
