//! Showing what was found.

use std::io::{self, IsTerminal, Write};

use super::finding::{Area, Finding, Verdict, summary};
use crate::colour;

/// How the text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
    /// Columns of the terminal; `None` when nobody's eyes are there, and lines are not broken.
    width: Option<usize>,
}

impl Style {
    /// What suits standard output: colours and broken lines on a terminal, unless `NO_COLOR`.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self { colour: false, width: None };
        }
        let size = rustix::termios::tcgetwinsize(&stdout).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|&width| width > 0);
        Self { colour: colour::shows_on(&stdout), width: Some(width.unwrap_or(80)) }
    }

    fn paint(self, text: &str, colour: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One JSON object a line, the summary last.
pub(crate) fn json(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings.iter().chain([&summary(findings)]) {
        serde_json::to_writer(&mut *out, finding)?;
        writeln!(out)?;
    }
    Ok(())
}

/// For people: a column of areas, a column of verdicts, and the text.
pub(crate) fn text(out: &mut impl Write, findings: &[Finding], style: Style) -> io::Result<()> {
    let mut last: Option<Area> = None;
    for finding in findings {
        let area = if last == Some(finding.area) { "" } else { finding.area.name() };
        last = Some(finding.area);
        line(out, area, finding, style)?;
    }
    let summary = summary(findings);
    writeln!(out, "\n{}", style.paint(&summary.what, colour_of(summary.verdict)))
}

fn line(out: &mut impl Write, area: &str, finding: &Finding, style: Style) -> io::Result<()> {
    let area = style.paint(&format!("{area:AREA$}"), BOLD);
    let verdict =
        style.paint(&format!("{:VERDICT$}", finding.verdict.name()), colour_of(finding.verdict));
    let room = style.width.map(|width| width.saturating_sub(MARGIN).max(LEAST));
    let mut lines = wrap(&finding.what, room).into_iter();
    writeln!(out, "{area} {verdict} {}", lines.next().unwrap_or_default())?;
    for more in lines {
        writeln!(out, "{:MARGIN$}{more}", "")?;
    }
    let todo = finding
        .todo
        .iter()
        .flat_map(|todo| wrap(todo, room.map(|room| room - ARROW.chars().count())));
    for (index, more) in todo.enumerate() {
        let arrow = if index == 0 { ARROW } else { "  " };
        writeln!(out, "{:MARGIN$}{}", "", style.paint(&format!("{arrow}{more}"), DIM))?;
    }
    Ok(())
}

/// The lines of a text, [broken](wrap_line) where there is not room for all of one.
fn wrap(text: &str, room: Option<usize>) -> Vec<String> {
    match room {
        Some(room) => text.lines().flat_map(|line| wrap_line(line, room)).collect(),
        None => text.lines().map(str::to_owned).collect(),
    }
}

/// Breaks a line at spaces so that none is longer than `room`, but for words that are.
fn wrap_line(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > room {
            lines.push(String::new());
            column = 0;
        }
        let current = lines.last_mut().expect("there is always a line");
        if column > 0 {
            current.push(' ');
            column += 1;
        }
        current.push_str(word);
        column += length;
    }
    lines
}

fn colour_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "32",
        Verdict::Note => "36",
        Verdict::Warning => "33",
        Verdict::Bad => "1;31",
    }
}

const AREA: usize = 9;
const VERDICT: usize = 7;
const MARGIN: usize = AREA + 1 + VERDICT + 1;
const LEAST: usize = 30;
const ARROW: &str = "→ ";
const BOLD: &str = "1";
const DIM: &str = "2";

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::good(Area::Cores, "4 processors"),
            Finding::warning(Area::Cores, "a quota of 2.5 cores", "start at most 2 ranks"),
            Finding::bad(Area::Memory, "none left", "buy some more of it today"),
        ]
    }

    fn shown(style: Style) -> String {
        let mut out = Vec::new();
        text(&mut out, &findings(), style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_an_area_is_named_once() {
        let plain = shown(Style { colour: false, width: None });
        let expected = "\
cores     good    4 processors
          warning a quota of 2.5 cores
                  → start at most 2 ranks
memory    bad     none left
                  → buy some more of it today

1 good, 1 warning, 1 bad
";
        assert_eq!(plain, expected);
    }

    #[test]
    fn on_a_terminal_lines_are_broken_under_their_beginning() {
        let narrow = shown(Style { colour: false, width: Some(1) });
        assert!(narrow.lines().all(|line| line.chars().count() <= MARGIN + LEAST), "{narrow}");
        let text = wrap("one two three", Some(7));
        assert_eq!(text, ["one two", "three"]);
        assert_eq!(wrap("a-very-long-word b", Some(4)), ["a-very-long-word", "b"]);
        assert_eq!(wrap("one two\nthree", Some(20)), ["one two", "three"]);
        assert_eq!(wrap("one two\nthree", None), ["one two", "three"]);
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        assert!(shown(Style { colour: true, width: None }).contains("\x1b[1;31mbad    \x1b[0m"));
        assert!(!shown(Style { colour: false, width: None }).contains('\x1b'));
    }

    #[test]
    fn every_json_line_has_the_four_fields() {
        let mut out = Vec::new();
        json(&mut out, &findings()).unwrap();
        let lines: Vec<serde_json::Value> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        for line in &lines {
            let names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(names, ["area", "todo", "verdict", "what"], "{line}");
        }
        assert_eq!(lines[1]["verdict"], "warning");
        assert_eq!(lines[0]["todo"], serde_json::Value::Null);
        assert_eq!(lines[3]["area"], "summary");
    }
}
