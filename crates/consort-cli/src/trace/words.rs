//! Times, ranks and calls in words.

use consort::trace::{CallTrace, RankTrace};

/// A length of time, from nanoseconds.
pub(super) fn span(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        // Not 1000.0 µs, to which the last of these would round.
        0..999_950 => format!("{:.1} µs", seconds * 1e6),
        999_950..999_950_000 => format!("{:.1} ms", seconds * 1e3),
        999_950_000..120_000_000_000 => format!("{seconds:.1} s"),
        120_000_000_000..7_200_000_000_000 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// What a rank called, and from where in its program, if that was noted.
pub(super) fn called(rank: &RankTrace, call: &CallTrace) -> String {
    match rank.site(call) {
        Some(site) => format!("{call} at {site}"),
        None => call.to_string(),
    }
}

/// `rank 3`, `ranks 0-2, 7`: in their order.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let part = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let list = parts.iter().map(part).collect::<Vec<_>>().join(", ");
    if ranks.len() == 1 { format!("rank {list}") } else { format!("ranks {list}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_a_row_are_drawn_together() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[0, 1, 2, 7]), "ranks 0-2, 7");
        assert_eq!(ranks(&[1, 3]), "ranks 1, 3");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let cases = [
            (1_500, "1.5 µs"),
            (999_999, "1.0 ms"),
            (2_500_000, "2.5 ms"),
            (999_999_900, "1.0 s"),
            (3_200_000_000, "3.2 s"),
            (600_000_000_000, "10 min"),
            (36_000_000_000_000, "10 h"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(span(nanoseconds), text);
        }
    }
}
