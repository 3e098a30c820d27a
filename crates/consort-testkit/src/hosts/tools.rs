//! The programs `ip`, `tc` and `bridge`, and what dead tests have left in their care.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::space::{PREFIX, SPACES};
use crate::skip::Skip;

/// Runs a program of iproute2 and returns what it prints.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, Skip> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            return Err(Skip::new(format!(
                "hosts need the program `{program}` (package iproute2): {error}"
            )));
        }
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let what = arguments.join(" ");
        return Err(Skip::new(format!("`{program} {what}` was refused: {}", words.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Removes the namespaces of processes that no longer exist.
pub(super) fn sweep() {
    let Ok(entries) = fs::read_dir(SPACES) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another test may be sweeping too; whoever comes second finds nothing.
            let _ = run("ip", &["netns", "delete", &name]);
        }
    }
}

/// The process that made a namespace of ours.
fn owner(name: &str) -> Option<&str> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.bytes().all(|byte| byte.is_ascii_digit()).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_an_owner() {
        assert_eq!(owner("consort-123-0h1"), Some("123"));
        assert_eq!(owner("consort-45-6w"), Some("45"));
        assert_eq!(owner("consort-demo-0"), None);
        assert_eq!(owner("other-123-0"), None);
        assert_eq!(owner("consort-123"), None);
    }
}
