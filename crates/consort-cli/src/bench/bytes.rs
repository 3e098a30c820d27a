//! Numbers of bytes as people type them: `8`, `1KiB`, `64MiB`.

/// Reads a whole number, with or without a unit.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(names, _)| names.contains(&unit.trim_start()));
    match (number.parse::<usize>(), factor) {
        (Ok(number), Some((_, factor))) => {
            number.checked_mul(*factor).ok_or_else(|| "that is more than any memory".to_owned())
        }
        _ => Err("a number of bytes is a whole number, alone or with KiB, MiB or GiB".to_owned()),
    }
}

/// Writes what [`parse`] reads, in the largest unit that loses nothing.
pub(crate) fn write(bytes: usize) -> String {
    let fits = |factor: usize| bytes >= factor && bytes.is_multiple_of(factor);
    match UNITS.iter().rev().find(|(_, factor)| fits(*factor)) {
        Some((names, factor)) => format!("{} {}", bytes / factor, names[0]),
        None => format!("{bytes} B"),
    }
}

/// The first name of each is the one that is written. They mean 1024: nobody measures kilobytes.
const UNITS: [(&[&str], usize); 4] = [
    (&["B", ""], 1),
    (&["KiB", "K", "k"], 1 << 10),
    (&["MiB", "M", "m"], 1 << 20),
    (&["GiB", "G", "g"], 1 << 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_and_without_units() {
        let cases =
            [("0", 0), ("8", 8), ("8B", 8), ("1KiB", 1024), ("3 MiB", 3 << 20), ("1G", 1 << 30)];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_bytes_is_refused() {
        for text in ["", "KiB", "1.5KiB", "-1", "8 apples", "1KB", "1kib"] {
            assert!(parse(text).is_err_and(|error| error.contains("KiB, MiB or GiB")), "{text}");
        }
        assert!(parse("99999999999999999999").is_err());
        assert!(parse("18014398509481984KiB").is_err_and(|error| error.contains("memory")));
    }

    #[test]
    fn bytes_are_written_in_the_largest_unit_that_loses_nothing() {
        let cases = [(0, "0 B"), (8, "8 B"), (1024, "1 KiB"), (1536, "1536 B"), (3 << 20, "3 MiB")];
        for (bytes, text) in cases {
            assert_eq!(write(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
    }
}
