//! Shows what is measured as it comes, and all of it in the end.

use std::io::{self, Write};

use super::against::Comparison;
use super::op::Op;
use super::plot::{self, Chart};
use super::sketch;
use super::table::{self, Table};
use crate::colour;

/// Everything that was measured so far.
#[derive(Debug)]
pub(crate) struct Report {
    names: Vec<String>,
    json: bool,
    table: Table,
    comparisons: Vec<Comparison>,
    /// How many of them have been sketched.
    sketched: usize,
}

impl Report {
    /// For these implementations; ours is the first.
    pub(crate) fn new(names: Vec<String>, json: bool) -> Self {
        let table = Table::new(names.clone(), colour::shows_on(&io::stdout()));
        Self { names, json, table, comparisons: Vec::new(), sketched: 0 }
    }

    /// Shows one more point.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn add(&mut self, comparison: Comparison) -> Result<(), String> {
        if self.json {
            for record in comparison.records.iter().flatten() {
                show(&(serde_json::to_string(record).expect("a record is plain data") + "\n"))?;
            }
        } else {
            if self.comparisons.last().is_some_and(|last| !is_same_table(last, &comparison)) {
                self.sketch()?;
            }
            show(&self.table.row(&comparison))?;
        }
        self.comparisons.push(comparison);
        Ok(())
    }

    /// Shows what belongs below the last table.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        if self.json { Ok(()) } else { self.sketch() }
    }

    /// A drawing of everything.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn plot(&self) -> Result<String, String> {
        let groups = self.comparisons.chunk_by(is_same_table);
        let charts: Vec<Chart<'_>> = groups
            .map(|group| Chart { title: title(&group[0]), comparisons: group.iter().collect() })
            .collect();
        plot::draw(&self.names, &charts)
    }

    fn sketch(&mut self) -> Result<(), String> {
        let group: Vec<&Comparison> = self.comparisons[self.sketched..].iter().collect();
        let drawing = sketch::draw(&self.names, &group);
        self.sketched = self.comparisons.len();
        if drawing.is_empty() { Ok(()) } else { show(&format!("\n{drawing}")) }
    }
}

fn is_same_table(one: &Comparison, other: &Comparison) -> bool {
    (one.point.op, one.point.dtype) == (other.point.op, other.point.dtype)
}

fn title(comparison: &Comparison) -> String {
    let point = &comparison.point;
    let ranks = comparison.records.iter().flatten().map(|record| record.ranks).next();
    let ranks = ranks.map_or_else(String::new, |ranks| format!(", {}", table::ranks(ranks)));
    if point.op == Op::Barrier {
        point.op.to_string()
    } else {
        format!("{} {}{ranks}", point.op, point.dtype)
    }
}

/// Whoever closed the pipe has seen enough; the measuring goes on for the plot.
pub(crate) fn show(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write what was measured: {error}"))
        }
        _ => Ok(()),
    }
}
