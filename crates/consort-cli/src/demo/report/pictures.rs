//! Some of the pictures that were kept back, with what the model takes them for.

use std::fmt::Write;

use super::png;
use crate::demo::digits::{SIDE, Set, draw, label};

/// The first pictures, and those that the model gets wrong, with these answers to all of them.
pub(crate) fn show(seed: u64, answers: &[u8]) -> String {
    let wrong: Vec<usize> =
        (0..answers.len()).filter(|&number| answers[number] != label(number)).collect();
    let first: Vec<usize> = (0..answers.len().min(FIRST)).collect();
    let mut html = String::new();
    let _ = writeln!(html, "<p>The first {} of those that were kept back:</p>", first.len());
    html.push_str(&grid(seed, answers, &first));
    match wrong.len() {
        0 => html.push_str("<p>None of them is read wrongly.</p>\n"),
        count => {
            let shown = count.min(MOST);
            let which =
                if shown < count { format!(", of which {shown} are shown") } else { String::new() };
            let (are, all) = (if count == 1 { "is" } else { "are" }, answers.len());
            let _ = writeln!(html, "<p>{count} of {all} {are} read wrongly{which}:</p>");
            html.push_str(&grid(seed, answers, &wrong[..shown]));
        }
    }
    html
}

fn grid(seed: u64, answers: &[u8], numbers: &[usize]) -> String {
    let mut html = "<ul class=\"pictures\">\n".to_owned();
    for &number in numbers {
        let (answer, truth) = (answers[number], label(number));
        let ink = draw(seed, Set::Test, number).pixels;
        let pixels: Vec<u8> = ink.iter().map(|ink| 255 - (ink * 255.0).round() as u8).collect();
        let address = png::address(SIDE, &pixels);
        let (class, words) = match answer == truth {
            true => ("right", format!("{answer}")),
            false => ("wrong", format!("{answer}, is {truth}")),
        };
        let _ = writeln!(
            html,
            "<li class=\"{class}\"><img src=\"{address}\" width=\"52\" height=\"52\" alt=\"a {truth}\">\
             <span>{words}</span></li>"
        );
    }
    html.push_str("</ul>\n");
    html
}

const FIRST: usize = 20;
const MOST: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_shown_with_what_is_right() {
        let mut answers: Vec<u8> = (0..30).map(label).collect();
        assert!(show(1, &answers).contains("None of them is read wrongly"));
        answers[24] = 9;
        let html = show(1, &answers);
        assert!(html.contains("1 of 30 is read wrongly:"), "{html}");
        assert!(html.contains("<span>9, is 4</span>"), "{html}");
        assert_eq!(html.matches("<li").count(), FIRST + 1);
    }

    #[test]
    fn not_too_many_mistakes_are_shown() {
        let html = show(1, &[11; 100]);
        assert!(html.contains("100 of 100 are read wrongly, of which 20 are shown:"), "{html}");
        assert_eq!(html.matches("class=\"wrong\"").count(), FIRST + MOST);
    }
}
