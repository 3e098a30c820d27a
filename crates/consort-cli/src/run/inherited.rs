//! What ranks inherit from the launcher's own environment. Each of them would refuse what is wrong
//! there; nothing is started if so.

use std::env;

use consort::{VARIABLES, check_variable as check_value};
use consort_sys::net::choose;

use super::settings::Settings;

/// Looks at the variables of this process.
///
/// # Errors
/// Says what is wrong with the first that ranks would refuse, and what to do.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    // What is not text counts as not set, here as in the ranks.
    let text = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, value)| name.starts_with(OURS) && !value.is_empty())
        .try_for_each(|(name, value)| check_variable(&name, &value, settings))
}

fn check_variable(name: &str, value: &str, settings: &Settings) -> Result<(), String> {
    match name {
        // Ranks get another.
        "CONSORT_TIMEOUT" if settings.timeout.is_some() => Ok(()),
        "CONSORT_LIVENESS" if settings.liveness.is_some() => Ok(()),
        "CONSORT_DEBUG" if settings.debug.is_some() => Ok(()),
        _ if settings.data_plane.sets(name) => Ok(()),
        _ if VARIABLES.contains(&name) => check_known(name, value),
        _ => {
            let (known, meant) = (VARIABLES.join(", "), meant_by(name));
            let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
            Err(format!("{name} is set, which is not known{meant}: unset it; there are {known}"))
        }
    }
}

/// Whether ranks take the value of a variable that is known.
///
/// # Errors
/// Says that they refuse it, and why.
pub(crate) fn check_known(name: &str, value: &str) -> Result<(), String> {
    let outcome = match name {
        "CONSORT_INTERFACE" => {
            choose(None, Some(value)).map(drop).map_err(|error| error.to_string())
        }
        _ => check_value(name, value),
    };
    outcome.map_err(|why| format!("{name}={value} is set, which ranks refuse: {why}"))
}

/// The variable that is spelt almost like this one, if there is one.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(OURS)?;
    let near = VARIABLES.into_iter().map(|known| (distance(name, &known[OURS.len()..]), known));
    let (distance, known) = near.min()?;
    (distance <= 2 && 2 * distance < name.len()).then_some(known)
}

/// How many letters have to be put in, left out or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    // How far what was looked at of the one is from each beginning of the other.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], at + 1);
        for (place, its) in other.bytes().enumerate() {
            let changed = corner + usize::from(letter != its);
            corner = row[place + 1];
            row[place + 1] = changed.min(corner + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

const OURS: &str = "CONSORT_";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::settings::tests::settings;

    fn refusal(name: &str, value: &str, line: &str) -> Option<String> {
        check_variable(name, value, &settings(line).unwrap()).err()
    }

    #[test]
    fn what_ranks_would_refuse_is_refused() {
        for (name, value, words) in [
            ("CONSORT_TIMEOUT", "5", "500ms, 10s, 5m or 2h"),
            ("CONSORT_LIVENESS", "soon", "500ms, 10s, 5m or 2h"),
            ("CONSORT_INTERFACE", "nosuch0", "nosuch0"),
            ("CONSORT_TRANSPORT", "udp", "auto, shm or tcp"),
            ("CONSORT_ENCRYPT", "maybe", "on or off"),
            ("CONSORT_ALGORITHM", "rings", "flat, ring"),
            ("CONSORT_DEBUG", "all", "off, info or detail"),
            ("CONSORT_TIMEOU", "5s", "(did you mean CONSORT_TIMEOUT?): unset it; there are"),
            ("CONSORT_PASSWORD", "5s", "unset it; there are CONSORT_RDZV"),
        ] {
            let refusal = refusal(name, value, "p").expect(name);
            assert!(refusal.starts_with(name) && refusal.contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_variable_is_taken_for_a_misspelt_one_if_few_letters_differ() {
        for (name, meant) in [
            ("CONSORT_BACKENDS", Some("CONSORT_BACKEND")),
            ("CONSORT_INTERFAEC", Some("CONSORT_INTERFACE")),
            ("CONSORT_NCL_LIBRARY", Some("CONSORT_NCCL_LIBRARY")),
            ("CONSORT_LOGS", Some("CONSORT_LOG")),
            ("CONSORT_HOST", None),
            ("CONSORT_PASSWORD", None),
            ("CONSORT_", None),
        ] {
            assert_eq!(meant_by(name), meant, "{name}");
        }
    }

    #[test]
    fn what_ranks_take_or_never_see_is_not_refused() {
        for (name, value, line) in [
            ("CONSORT_TIMEOUT", "5m", "p"),
            ("CONSORT_TIMEOUT", "5", "--timeout 5s p"),
            ("CONSORT_LIVENESS", "5", "--liveness 5s p"),
            ("CONSORT_INTERFACE", "lo", "p"),
            ("CONSORT_EPOCH", "of another launcher", "p"),
            ("CONSORT_TRANSPORT", "tcp", "p"),
            ("CONSORT_TRANSPORT", "udp", "--transport tcp p"),
            ("CONSORT_ENCRYPT", "maybe", "--encrypt p"),
            ("CONSORT_DEBUG", "detail", "p"),
            ("CONSORT_DEBUG", "all", "--debug info p"),
        ] {
            assert_eq!(refusal(name, value, line), None);
        }
    }
}
