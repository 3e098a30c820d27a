//! The signals of the launcher, as events.

use std::fs;
use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::event::Event;
use super::status::signal_name;

/// Whether a signal asks the job to end. The others are only passed on to the ranks.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT)
}

/// Why a launcher goes that such a signal has reached, in words.
pub(crate) fn asked_by(signal: i32) -> String {
    format!("it was asked to end by {}", signal_name(signal))
}

/// Turns signals to this process into events from now on.
///
/// A signal that was ignored when we started stays ignored, as under `nohup`.
pub(crate) fn watch(events: Sender<Event>) -> io::Result<()> {
    let ignored = fs::read_to_string("/proc/self/status").map_or(0, |text| ignored_mask(&text));
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]
        .into_iter()
        .filter(|signal| ignored & 1 << (signal - 1) == 0);
    let mut signals = Signals::new(wanted)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// The `SigIgn` line of `/proc/self/status`: bit N - 1 is set when signal N is ignored.
fn ignored_mask(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored_mask("Name:\tsh\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored_mask("Name:\tsh\n"), 0);
    }
}
