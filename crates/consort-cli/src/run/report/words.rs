//! Ranks and times in words.

use std::fmt;
use std::time::Duration;

/// Ranks in ascending order, as `rank 1` or `ranks 0, 2-5 and 7`.
pub(crate) struct Ranks<'a>(pub(crate) &'a [u32]);

impl Ranks<'_> {
    /// `was` for one rank, `were` for several.
    pub(crate) fn were(&self) -> &'static str {
        if self.0.len() == 1 { "was" } else { "were" }
    }
}

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> = self
            .0
            .chunk_by(|rank, next| rank + 1 == *next)
            .flat_map(|run| match run {
                [first, _, .., last] => vec![format!("{first}-{last}")],
                few => few.iter().map(u32::to_string).collect(),
            })
            .collect();
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        match runs.as_slice() {
            [most @ .., last] if !most.is_empty() => write!(f, "{} and {last}", most.join(", ")),
            one => f.write_str(&one.concat()),
        }
    }
}

/// A length of time with about three digits.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0..10 => write!(f, "{seconds:.2} s"),
            10..120 => write!(f, "{seconds:.1} s"),
            120..7200 => write!(f, "{:.1} min", seconds / 60.0),
            _ => write!(f, "{:.1} h", seconds / 3600.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ranks_are_told_together() {
        let words = |ranks: &[u32]| Ranks(ranks).to_string();
        assert_eq!(words(&[3]), "rank 3");
        assert_eq!(words(&[0, 1]), "ranks 0 and 1");
        assert_eq!(words(&[0, 2, 3, 4, 5, 7]), "ranks 0, 2-5 and 7");
        assert_eq!(words(&[1, 2, 3]), "ranks 1-3");
        assert_eq!(words(&[0, 2, 3]), "ranks 0, 2 and 3");
    }

    #[test]
    fn times_are_told_with_the_precision_that_matters() {
        let words = |milliseconds| Seconds(Duration::from_millis(milliseconds)).to_string();
        assert_eq!(words(123), "0.12 s");
        assert_eq!(words(61_230), "61.2 s");
        assert_eq!(words(600_000), "10.0 min");
        assert_eq!(words(9_000_000), "2.5 h");
    }
}
