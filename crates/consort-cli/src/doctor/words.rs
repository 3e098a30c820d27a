//! Numbers and lists as people write them.

use std::time::Duration;

/// `512 B`, `1.5 GiB`, `24 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut amount, mut unit) = (count as f64, 0);
    while amount >= 1024.0 && unit + 1 < units.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let digits = if amount < 10.0 && amount.fract() >= 0.05 { 1 } else { 0 };
    format!("{amount:.digits$} {}", units[unit])
}

/// `1 rank`, `4 ranks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `850 ns`, `42 µs`, `1.3 ms`, `2.0 s`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 1e-6 => format!("{:.0} ns", seconds * 1e9),
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_digit_only_where_it_tells_something() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64 MiB"),
            (25_274_793_984, "24 GiB"),
            (u64::MAX, "16384 PiB"),
        ];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn times_and_counts_read_naturally() {
        assert_eq!(time(Duration::from_nanos(850)), "850 ns");
        assert_eq!(time(Duration::from_micros(42)), "42 µs");
        assert_eq!(time(Duration::from_micros(1300)), "1.3 ms");
        assert_eq!(time(Duration::from_secs(2)), "2.0 s");
        assert_eq!(count(1, "rank"), "1 rank");
        assert_eq!(count(0, "rank"), "0 ranks");
    }
}
