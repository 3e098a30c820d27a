//! Times and bandwidths as people type and read them.

/// Reads a time in seconds: `5us`, `20ms`, `1.5s`.
pub(super) fn parse_time(text: &str) -> Result<f64, String> {
    read(text, &TIMES)
        .ok_or_else(|| "a time is a number with ns, us, ms or s, as in 5us".to_owned())
}

/// Reads a bandwidth in bytes a second: `25Gbit`, `3GB`, each also with `/s`.
pub(super) fn parse_bandwidth(text: &str) -> Result<f64, String> {
    let found = read(text.trim_end_matches("/s"), &BANDWIDTHS).filter(|rate| *rate > 0.0);
    found.ok_or_else(|| {
        "a bandwidth is a number above 0 with Mbit, Gbit, MB or GB, as in 25Gbit or 3GB/s"
            .to_owned()
    })
}

/// Writes seconds with the unit that suits them: `15.0 µs`, `1.23 ms`, `4.5 s`.
pub(super) fn write_time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

fn read(text: &str, units: &[(&[&str], f64)]) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    let unit = &text[number.len()..];
    let factor = units.iter().find(|(names, _)| names.contains(&unit))?.1;
    let value = number.trim_end().parse::<f64>().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * factor)
}

const TIMES: [(&[&str], f64); 4] =
    [(&["ns"], 1e-9), (&["us", "µs"], 1e-6), (&["ms"], 1e-3), (&["s"], 1.0)];

const BANDWIDTHS: [(&[&str], f64); 4] =
    [(&["Mbit", "Mb"], 1e6 / 8.0), (&["Gbit", "Gb"], 1e9 / 8.0), (&["MB"], 1e6), (&["GB"], 1e9)];

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Result<f64, String>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() <= expected * 1e-12, "{found}, not {expected}");
    }

    #[test]
    fn times_are_read_with_their_units() {
        close(parse_time("5us"), 5e-6);
        close(parse_time("5 µs"), 5e-6);
        close(parse_time("0.5ms"), 5e-4);
        close(parse_time("20ns"), 2e-8);
        for text in ["5", "us", "-1us", "5 hours", "infs", "1e999s"] {
            assert!(parse_time(text).is_err_and(|error| error.contains("as in 5us")), "{text}");
        }
    }

    #[test]
    fn bandwidths_are_read_in_bits_and_bytes() {
        close(parse_bandwidth("25Gbit"), 25e9 / 8.0);
        close(parse_bandwidth("25Gb/s"), 25e9 / 8.0);
        close(parse_bandwidth("3GB/s"), 3e9);
        close(parse_bandwidth("100 Mbit"), 100e6 / 8.0);
        for text in ["25", "0Gbit", "Gbit", "25G"] {
            assert!(parse_bandwidth(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_written_in_a_unit_that_suits_them() {
        let cases = [(1.5e-5, "15.0 µs"), (1.234e-3, "1.23 ms"), (4.5, "4.50 s"), (0.0, "0.0 µs")];
        for (seconds, text) in cases {
            assert_eq!(write_time(seconds), text);
        }
    }
}
