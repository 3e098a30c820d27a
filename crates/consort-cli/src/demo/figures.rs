//! How numbers are written, in the terminal and on the page.

use std::time::Duration;

/// A whole number, with commas.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|it| std::str::from_utf8(it).expect("digits"))
        .collect();
    groups.join(",")
}

/// A part of a whole.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// The same, where the last ones count.
pub(crate) fn accuracy(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// So many seconds, to three digits or so.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        0.001..0.01 => format!("{:.2} ms", seconds * 1e3),
        0.01..0.1 => format!("{:.1} ms", seconds * 1e3),
        0.1..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// How long somebody has to wait still.
pub(crate) fn left(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// How much memory.
pub(crate) fn bytes(bytes: usize) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0)),
    }
}

/// How much of it in a second.
pub(crate) fn gigabytes(rate: f64) -> String {
    if rate < 0.1 { format!("{rate:.4} GB/s") } else { format!("{rate:.2} GB/s") }
}

/// A loss.
pub(crate) fn loss(loss: f64) -> String {
    format!("{loss:.4}")
}

/// A small difference: a digit or two of it, however small it is.
pub(crate) fn difference(of: f64) -> String {
    if of == 0.0 || of >= 0.01 { format!("{of:.3}") } else { format!("{of:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0.0, 999.4, 1000.0, 1_234_567.0].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [2e-6, 0.0034, 0.0345, 0.345, 17.26].map(time),
            ["2 µs", "3.40 ms", "34.5 ms", "345 ms", "17.3 s"]
        );
        assert_eq!([0, 12, 1 << 12, 3 << 20].map(bytes), ["0 B", "12 B", "4 KiB", "3.0 MiB"]);
        assert_eq!([0.0, 0.25, 0.000_123].map(difference), ["0.000", "0.250", "1.2e-4"]);
        let waits = [0, 89, 600, 9000].map(|seconds| left(Duration::from_secs(seconds)));
        assert_eq!(waits, ["0 s", "89 s", "10 min", "3 h"]);
        assert_eq!((percent(0.814), accuracy(0.98765)), ("81 %".to_owned(), "98.77 %".to_owned()));
    }
}
