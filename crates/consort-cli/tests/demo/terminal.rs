//! What is seen on a terminal, and elsewhere.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::run;

/// What the command shows on a terminal of so many columns.
fn on_terminal(columns: u16, variables: &[(&str, &str)]) -> String {
    let mut near = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&near, size).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap();
    let far = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(["demo", "-n", "2", "--steps", "6", "--batch", "8", "--no-compare"]);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(far);
    let mut child = command.spawn().unwrap();
    // The command keeps its copy of the far end, which would keep the near one waiting.
    drop(command);
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    // When the last far end is closed, reading fails.
    while let Ok(count @ 1..) = near.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

/// What each of the bars that were drawn over each other looked like, without colours.
fn bars(shown: &str) -> Vec<String> {
    let mut bars = Vec::new();
    for piece in shown.split("\r\x1b[2K").skip(1) {
        let line = piece.lines().next().unwrap_or_default();
        let plain = ["\x1b[36m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(line.to_owned(), |it, code| it.replace(code, ""));
        bars.push(plain);
    }
    bars
}

#[test]
fn one_line_is_drawn_again_and_again_on_a_terminal() {
    let shown = on_terminal(100, &[]);
    assert!(shown.contains("\x1b[36m"), "it has colours: {shown:?}");
    let bars = bars(&shown);
    let last = bars.last().unwrap();
    assert!(last.contains("━") && last.contains(" 6/6") && last.contains("loss"), "{bars:?}");
    assert!(bars.iter().all(|bar| bar.chars().count() < 100), "{bars:?}");
}

#[test]
fn a_narrow_terminal_gets_a_line_that_fits() {
    let bars = bars(&on_terminal(30, &[]));
    assert!(bars.iter().all(|bar| bar.chars().count() < 30), "{bars:?}");
    assert!(bars.last().unwrap().contains("6/6"), "{bars:?}");
}

#[test]
fn colours_can_be_refused() {
    let shown = on_terminal(100, &[("NO_COLOR", "1")]);
    assert!(!shown.contains("\x1b[36m") && shown.contains("━"), "{shown:?}");
}

#[test]
fn a_terminal_that_cannot_go_back_gets_lines() {
    let shown = on_terminal(100, &[("TERM", "dumb")]);
    assert!(!shown.contains('\x1b') && shown.contains("2 ranks: step 6 of 6"), "{shown:?}");
}

#[test]
fn a_file_gets_lines() {
    let run = run("-n 2 --steps 4 --batch 8");
    for text in [&run.stdout, &run.stderr] {
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{run:?}");
    }
    for part in ["2 ranks: step 4 of 4, loss", "one process: step 4 of 4, loss", "samples/s"] {
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    }
}
