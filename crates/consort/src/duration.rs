//! Lengths of time as people type them: `500ms`, `10s`, `5m`, `2h`.

use std::time::Duration;

/// Reads a whole number with its unit.
///
/// # Errors
/// Says how a length of time is written.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(consort::duration::parse("5m"), Ok(Duration::from_secs(300)));
/// ```
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let milliseconds = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, length)| length);
    match (number.parse::<u64>(), milliseconds) {
        (Ok(number), Some(length)) => number
            .checked_mul(*length)
            .map(Duration::from_millis)
            .ok_or_else(|| "that is longer than a clock can count".to_owned()),
        _ => Err("a length of time is a whole number with a unit: 500ms, 10s, 5m or 2h".to_owned()),
    }
}

/// Writes what [`parse`] reads, in the largest unit that loses nothing above a millisecond.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(consort::duration::write(Duration::from_secs(90)), "90s");
/// ```
pub fn write(duration: Duration) -> String {
    let total = duration.as_millis();
    let (unit, length) = UNITS
        .into_iter()
        .find(|(_, length)| total.is_multiple_of(u128::from(*length)))
        .expect("every whole number of milliseconds is a multiple of one");
    format!("{}{unit}", total / u128::from(length))
}

/// Units and their length in milliseconds, longest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood() {
        assert_eq!(parse("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(parse("10s").unwrap(), Duration::from_secs(10));
        assert_eq!(parse("5m").unwrap(), Duration::from_secs(300));
        assert_eq!(parse("2h").unwrap(), Duration::from_secs(7200));
    }

    #[test]
    fn what_is_not_a_length_of_time_is_refused_with_examples() {
        for wrong in ["", "10", "s", "-1s", "1.5s", "10 s", "10sec", "ms10"] {
            assert!(parse(wrong).unwrap_err().contains("500ms"), "{wrong:?}");
        }
        assert!(parse("99999999999999999h").is_err());
        assert!(parse("99999999999999999999h").is_err());
    }

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["0h", "1ms", "1500ms", "90s", "61m", "25h"] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
        assert_eq!(write(parse("60s").unwrap()), "1m");
    }
}
