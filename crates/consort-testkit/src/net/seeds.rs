//! Many worlds, each from its seed.

use std::fmt;
use std::panic::{RefUnwindSafe, catch_unwind};

/// Plays a world for every seed below `count`, and adds up what happened in them.
///
/// When one fails, the test fails with the line that plays this one again and shows all that happens
/// in it. `package` and `test` are the names in that line. With `CONSORT_SEED` set only that world is
/// played, and there is nothing to add up: `None`.
///
/// ```
/// let sums = consort_testkit::net::play("some-crate", "some_test", 10, |seed, _shows| [seed, 1]);
/// assert!(sums.is_none_or(|sums| sums == [45, 10]));
/// ```
pub fn play<const N: usize>(
    package: &str,
    test: &str,
    count: u64,
    world: impl Fn(u64, bool) -> [u64; N] + RefUnwindSafe,
) -> Option<[u64; N]> {
    if let Some(seed) = std::env::var("CONSORT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        world(seed, true);
        return None;
    }
    let mut sums = [0; N];
    for seed in 0..count {
        match catch_unwind(|| world(seed, false)) {
            Ok(found) => sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found),
            Err(_) => panic!("{}", Again { package, test, seed }),
        }
    }
    Some(sums)
}

struct Again<'a> {
    package: &'a str,
    test: &'a str,
    seed: u64,
}

impl fmt::Display for Again<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, test, seed } = self;
        write!(
            f,
            "the world of seed {seed} failed; to see what happens in it:\n  CONSORT_SEED={seed} cargo \
             test -p {package} --lib {test} -- --nocapture"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_that_fails_says_how_to_play_it_again() {
        let played = catch_unwind(|| {
            play("crate", "test", 10, |seed, _| {
                assert_ne!(seed, 7, "this seed fails on purpose");
                [1]
            })
        });
        let told = *played.unwrap_err().downcast::<String>().unwrap();
        assert!(told.ends_with("CONSORT_SEED=7 cargo test -p crate --lib test -- --nocapture"));
    }
}
