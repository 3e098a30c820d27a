//! From where in a program calls are made.

use std::collections::HashMap;
use std::panic::Location;

use super::layout::{SITE_WORDS, SITES, Site, set_text};

/// The sites that were met so far.
#[derive(Debug, Default)]
pub(super) struct Sites {
    /// By where the compiler has put them, which is quicker to compare than names. A site of which it
    /// has made several is several.
    numbers: HashMap<usize, u16>,
    met: Vec<&'static Location<'static>>,
}

impl Sites {
    /// The number of a site, from 1. One that was not met before is written down, and `say` hears how
    /// many there are; 0 if there is no place left.
    pub(super) fn number_of(
        &mut self,
        site: &'static Location<'static>,
        places: &[Site; SITES],
        say: impl FnOnce(usize),
    ) -> u16 {
        let address = std::ptr::from_ref(site).addr();
        if let Some(&number) = self.numbers.get(&address) {
            return number;
        }
        let Some(place) = places.get(self.met.len()) else { return 0 };
        set_text(&place.words, &in_words(site));
        self.met.push(site);
        say(self.met.len());
        let number = self.met.len() as u16;
        self.numbers.insert(address, number);
        number
    }

    /// The site of a number.
    pub(super) fn text_of(&self, number: u16) -> Option<String> {
        let index = usize::from(number).checked_sub(1)?;
        self.met.get(index).map(|site| in_words(site))
    }
}

/// File and line. Of a long path the end says more than the beginning.
fn in_words(site: &Location<'_>) -> String {
    shorten(format!("{}:{}", site.file(), site.line()))
}

fn shorten(text: String) -> String {
    match text.len().checked_sub(MOST) {
        None | Some(0) => text,
        Some(_) => {
            let start = text.ceil_char_boundary(text.len() - MOST + CUT.len());
            format!("{CUT}{}", &text[start..])
        }
    }
}

const MOST: usize = (SITE_WORDS - 1) * size_of::<u64>();
const CUT: &str = "…";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_end_stays() {
        assert_eq!(shorten("src/main.rs:7".to_owned()), "src/main.rs:7");
        let long = shorten(format!("{}/main.rs:7", "ä".repeat(100)));
        assert!(long.len() <= MOST && long.starts_with("…ä"), "{long}");
        assert!(long.ends_with("ä/main.rs:7"), "{long}");
    }
}
