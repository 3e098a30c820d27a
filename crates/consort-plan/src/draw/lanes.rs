//! A picture: a lane for each rank, time from left to right, an arrow for each message.

use std::fmt::Write as _;

use super::name;
use super::times::{Message, Times};
use crate::program::{How, Program, Step};

/// Draws all ranks' programs. Every message takes one unit of time, at least; what combines is
/// drawn in another colour than what is only moved. Arrows and rounds say what they are when the
/// pointer rests on them.
pub fn svg(title: &str, programs: &[Program]) -> String {
    let times = Times::of(programs);
    let (width, height) = (LEFT + x(times.length()) + MARGIN, TOP + y(programs.len()) + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n{HEAD}\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    for (rank, rounds) in times.rounds.iter().enumerate() {
        draw_lane(&mut svg, rank, rounds, x(times.length()));
    }
    for message in &times.messages {
        draw_message(&mut svg, message, &times, programs);
    }
    svg + "</svg>\n"
}

fn draw_lane(svg: &mut String, rank: usize, rounds: &[(u32, u32)], length: u32) {
    let (left, middle) = (LEFT, TOP + y(rank) + LANE / 2);
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{}\">rank {rank}</text>\n\
         <line x1=\"{left}\" y1=\"{middle}\" x2=\"{}\" y2=\"{middle}\" stroke=\"#ddd\"/>",
        middle + 4,
        left + length
    );
    for (round, (start, end)) in rounds.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{BOX}\" rx=\"3\" fill=\"#eef2f7\" \
             stroke=\"#9ab\"><title>rank {rank}, round {round}</title></rect>",
            left + x(*start) + 2,
            middle - BOX / 2,
            x(end - start) - 4
        );
    }
}

fn draw_message(svg: &mut String, message: &Message, times: &Times, programs: &[Program]) {
    let Message { from, to } = message;
    let (sent, received) = (
        programs[from.rank].round(from.round)[from.step],
        programs[to.rank].round(to.round)[to.step],
    );
    let combines = matches!(received, Step::Recv { how: How::Combine { .. }, .. });
    let class = if combines { "c" } else { "m" };
    let centre = |rank| TOP + y(rank) + LANE / 2;
    let (start, _) = times.rounds[from.rank][from.round];
    let (_, end) = times.rounds[to.rank][to.round];
    let (x1, x2) = (LEFT + x(start) + COLUMN / 6, LEFT + x(end) - COLUMN / 6);
    let (y1, y2) = (centre(from.rank), centre(to.rank));
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" \
         marker-end=\"url(#{class})\"><title>rank {}, round {}: {sent}; rank {}, round {}: \
         {received}</title></line>",
        from.rank, from.round, to.rank, to.round
    );
    if programs.len() <= MOST_LABELLED
        && let Step::Send { from: chunks, .. } = sent
    {
        // Nearer to the receiver, where fewer arrows cross.
        let (x, y) = ((x1 + 2 * x2) / 3, (y1 + 2 * y2) / 3);
        let label = escape(&name(chunks));
        let _ = writeln!(svg, "<text class=\"l\" x=\"{x}\" y=\"{y}\">{label}</text>");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn x(time: u32) -> u32 {
    time * COLUMN
}

fn y(rank: usize) -> u32 {
    rank as u32 * LANE
}

const HEAD: &str = "\
<defs>\n\
<marker id=\"m\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#36c\"/></marker>\n\
<marker id=\"c\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#c50\"/></marker>\n\
</defs>\n\
<style>.m{stroke:#36c;stroke-width:1.3}.c{stroke:#c50;stroke-width:1.3}.l{font-size:10px;fill:#333;stroke:white;stroke-width:3px;paint-order:stroke;text-anchor:middle}</style>";
const MARGIN: u32 = 16;
const LEFT: u32 = 80;
const TOP: u32 = 40;
const LANE: u32 = 44;
const BOX: u32 = 20;
const COLUMN: u32 = 90;
const MOST_LABELLED: usize = 8;
