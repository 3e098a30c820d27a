//! The table on a terminal, until somebody presses `q`.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Paragraph, Row as Line, Table};
use ratatui::{DefaultTerminal, Frame};

use super::table::{HEAD, cells};
use super::{Seen, Watch};

/// Shows a job until the user has seen enough.
///
/// # Errors
/// When the terminal does not do what it should.
pub(super) fn run(watch: Watch) -> io::Result<()> {
    // It puts the terminal back in order, also if something panics.
    ratatui::run(|terminal| show(terminal, watch))
}

fn show(terminal: &mut DefaultTerminal, mut watch: Watch) -> io::Result<()> {
    let mut seen = Seen { title: "looking …".to_owned(), rows: Vec::new() };
    loop {
        terminal.draw(|frame| draw(frame, &seen))?;
        let next = Instant::now() + watch.interval;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            match key_within(left)? {
                Key::Quit => return Ok(()),
                Key::Resize => {
                    terminal.draw(|frame| draw(frame, &seen))?;
                }
                Key::Other => {}
            }
        }
        seen = watch.look();
    }
}

enum Key {
    Quit,
    Resize,
    Other,
}

fn key_within(time: Duration) -> io::Result<Key> {
    if !event::poll(time)? {
        return Ok(Key::Other);
    }
    Ok(match event::read()? {
        Event::Resize(..) => Key::Resize,
        Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
            _ => Key::Other,
        },
        _ => Key::Other,
    })
}

fn draw(frame: &mut Frame<'_>, seen: &Seen) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(&seen.title[..]), top);
    let head = Line::new(HEAD).style(Style::new().add_modifier(Modifier::REVERSED));
    let lines = seen.rows.iter().map(|row| Line::new(cells(row).map(Cell::from)));
    let widths = [6, 9, 9, 8, 8].map(Constraint::Length);
    let table = Table::new(lines, widths.into_iter().chain([Constraint::Fill(1)])).header(head);
    frame.render_widget(table, middle);
    frame.render_widget(Paragraph::new("q: quit"), bottom);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rows::Row;
    use super::*;

    #[test]
    fn every_rank_has_its_line() {
        let row = |rank| Row {
            rank,
            calls: 10.0,
            bytes: 0.0,
            waiting: 0.25,
            awaited: 0.0,
            doing: format!("in call {rank} of world"),
        };
        let seen = Seen { title: "job x, running".to_owned(), rows: vec![row(3), row(0)] };
        let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
        terminal.draw(|frame| draw(frame, &seen)).unwrap();
        let text = terminal.backend().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("job x, running"), "{text}");
        assert!(lines[3].contains("25%") && lines[3].contains("in call 3 of world"), "{text}");
        assert!(lines[4].contains("in call 0 of world"), "{text}");
        assert!(lines[7].contains("q: quit"), "{text}");
    }
}
