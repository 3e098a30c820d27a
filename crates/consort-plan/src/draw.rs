//! Programs to look at: as text, and as lanes in a picture (SVG).

mod lanes;
mod times;

pub use lanes::svg;

use std::fmt::Write as _;

use crate::program::{Chunks, How, Operand, Program, Space, Step};

/// All ranks' programs side by side, a row for each round.
///
/// Ranks are not in step: rounds in one row need not happen at the same time.
pub fn text(programs: &[Program]) -> String {
    let mut text = String::new();
    let cells: Vec<Vec<Vec<String>>> =
        programs.iter().map(|program| program.rounds().map(cell).collect()).collect();
    let lines = cells.iter().flatten().flatten();
    let width = lines.map(|line| line.chars().count()).max().unwrap_or(0).max(HEADING);
    let columns = (PAGE / (width + 2)).max(1);
    for (block, ranks) in (0..).zip(cells.chunks(columns)) {
        if block > 0 {
            text.push('\n');
        }
        write_block(&mut text, block * columns, ranks, width);
    }
    text + LEGEND
}

/// One rank's program, a line for each step.
pub fn steps(program: &Program) -> String {
    let mut text = String::new();
    for (round, steps) in program.rounds().enumerate() {
        for (index, step) in steps.iter().enumerate() {
            let label = if index == 0 { format!("round {round}") } else { String::new() };
            let _ = writeln!(text, "{label:<10}{step}");
        }
    }
    if !program.scratch().is_empty() {
        let _ = writeln!(text, "needs scratch for {}", scratch(program));
    }
    text
}

/// Ranks that fit beside each other.
fn write_block(text: &mut String, first: usize, ranks: &[Vec<Vec<String>>], width: usize) {
    let heads = (first..).take(ranks.len()).map(|rank| format!("rank {rank}"));
    write_line(text, "round", heads, width);
    let rounds = ranks.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        let steps = |rank: &Vec<Vec<String>>| rank.get(round).map_or(0, Vec::len);
        for line in 0..ranks.iter().map(steps).max().unwrap_or(0) {
            let label = if line == 0 { round.to_string() } else { String::new() };
            let part = |rank: &Vec<Vec<String>>| {
                rank.get(round).and_then(|steps| steps.get(line)).cloned().unwrap_or_default()
            };
            write_line(text, &label, ranks.iter().map(part), width);
        }
    }
}

fn write_line(text: &mut String, label: &str, cells: impl Iterator<Item = String>, width: usize) {
    let mut line = format!("{label:<7}");
    for cell in cells {
        let _ = write!(line, "{cell:<width$}  ");
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

fn cell(steps: &[Step]) -> Vec<String> {
    steps.iter().map(short).collect()
}

/// A step in few letters.
fn short(step: &Step) -> String {
    match step {
        Step::Send { to, from } => format!("{} → {to}", name(*from)),
        Step::Copy { from, into } => format!("{} = {}", name(*into), name(*from)),
        Step::Recv { from, into, how } => match how {
            How::Overwrite => format!("{} ← {from}", name(*into)),
            How::Combine { with, first: Operand::Received } => {
                format!("{} ← {from}∘{}", name(*into), name(*with))
            }
            How::Combine { with, first: Operand::Local } => {
                format!("{} ← {}∘{from}", name(*into), name(*with))
            }
        },
    }
}

/// `i2`, `o0..4`, or `·` for nothing.
fn name(chunks: Chunks) -> String {
    let letter = match chunks.space {
        Space::In => 'i',
        Space::Out => 'o',
        Space::Scratch => 's',
    };
    match chunks.len {
        0 => "·".to_owned(),
        1 => format!("{letter}{}", chunks.start),
        _ => format!("{letter}{}..{}", chunks.start, chunks.end()),
    }
}

/// How much scratch, in words.
fn scratch(program: &Program) -> String {
    match program.scratch() {
        [one] => format!("a chunk as large as chunk {one}"),
        chunks if chunks.len() <= 8 => {
            let list: Vec<String> = chunks.iter().map(u32::to_string).collect();
            format!("{} chunks, as large as the chunks {}", chunks.len(), list.join(", "))
        }
        chunks => format!("{} chunks", chunks.len()),
    }
}

const LEGEND: &str = "\
\ni2 chunk 2 of In, o0..4 chunks 0 to 3 of Out, s scratch, · nothing
i2 → 1 send to rank 1, o2 ← 1 receive from rank 1, o2 ← 1∘i2 combine what comes with i2, o2 = i0 copy\n";
const HEADING: usize = 7;
const PAGE: usize = 104;

#[cfg(test)]
mod tests;
