//! Process groups: a rank together with everything it started.

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group};

/// Sends a signal to all members. A group without members is no error.
///
/// The leader must not have been reaped yet: until then the number cannot belong to others.
pub(crate) fn signal(group: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(group, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::warn!(group = group.as_raw_pid(), ?signal, %error, "cannot signal a rank's group");
    }
}

/// Whether any process of these groups still runs. Ended ones that nobody has reaped do not.
pub(crate) fn any_alive(groups: &[Pid]) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter_map(|stat| living_group(&stat))
        .any(|group| groups.iter().any(|ours| ours.as_raw_pid() == group))
}

/// The group of a process that still runs, from its `/proc` line:
/// `pid (name) state parent group …`. The name may hold anything, parentheses too.
fn living_group(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_tells_its_group() {
        assert_eq!(living_group("12 (sh) S 1 34 12 0 -1"), Some(34));
        assert_eq!(living_group("12 (a) Z 9 (b) R 1 35 12"), Some(35));
    }

    #[test]
    fn an_ended_process_does_not_count() {
        assert_eq!(living_group("12 (sh) Z 1 34 12 0 -1"), None);
        assert_eq!(living_group("12 (sh"), None);
        assert_eq!(living_group(""), None);
    }

    #[test]
    fn our_own_group_is_alive() {
        assert!(any_alive(&[rustix::process::getpgrp()]));
    }
}
