//! The program and the kernel under it.

use consort_sys::ability::Ability;

use crate::doctor::facts::System;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;

/// Which versions these are.
pub(crate) fn versions(system: &System) -> Finding {
    let System { consort, protocol, host, release, machine, .. } = system;
    let what = format!(
        "consort {consort}, protocol version {protocol}; {host} runs Linux {release} on {machine}"
    );
    match parse_release(release) {
        Some(version) if version < OLDEST => {
            let todo = format!("use Linux {}.{} or newer", OLDEST.0, OLDEST.1);
            Finding::warning(Area::System, what, todo)
        }
        _ => Finding::good(Area::System, what),
    }
}

/// Whether the system calls that consort is built on are permitted.
pub(crate) fn abilities(system: &System) -> Finding {
    let describe = |ability: &Ability| {
        let refusal = ability.refusal.as_deref()?;
        Some(format!("{}, needed {}, is refused: {refusal}", ability.name, ability.purpose))
    };
    let refused: Vec<String> = system.abilities.iter().filter_map(describe).collect();
    if refused.is_empty() {
        let names: Vec<_> = system.abilities.iter().map(|ability| ability.name).collect();
        let filter = if system.filtered { ", under a seccomp filter" } else { "" };
        return Finding::good(Area::System, format!("{} work{filter}", words::list(&names)));
    }
    let todo = if system.filtered {
        "a seccomp filter is in force: allow these system calls in the container's profile"
    } else {
        "use a newer kernel: Linux 5.4 has them all"
    };
    Finding::bad(Area::System, refused.join("; "), todo)
}

/// `6.1` of `6.1.0-18-amd64`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The first with pidfds that can be waited for.
const OLDEST: (u32, u32) = (5, 4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn system(release: &str, refusal: Option<&str>, filtered: bool) -> System {
        let ability = |name, refusal: Option<&str>| Ability {
            name,
            purpose: "to do things",
            refusal: refusal.map(Into::into),
        };
        System {
            consort: "1.2.3",
            protocol: 7,
            host: "n0".into(),
            release: release.into(),
            machine: "x86_64".into(),
            filtered,
            abilities: vec![ability("pidfd", None), ability("memfd", refusal)],
            infiniband: false,
        }
    }

    #[test]
    fn versions_are_told_and_an_old_kernel_warned_of() {
        let good = versions(&system("6.1.0-18-amd64", None, false));
        assert_eq!(good.verdict, Verdict::Good);
        assert!(good.what.contains("consort 1.2.3, protocol version 7"), "{}", good.what);
        assert_eq!(versions(&system("5.4.0", None, false)).verdict, Verdict::Good);
        assert_eq!(versions(&system("4.18.0-553.el8", None, false)).verdict, Verdict::Warning);
        assert_eq!(versions(&system("strange", None, false)).verdict, Verdict::Good);
    }

    #[test]
    fn a_refused_system_call_is_bad_and_named() {
        let good = abilities(&system("6.1", None, true));
        assert_eq!(good.what, "pidfd and memfd work, under a seccomp filter");
        let bad = abilities(&system("6.1", Some("no"), false));
        assert_eq!(bad.verdict, Verdict::Bad);
        assert_eq!(bad.what, "memfd, needed to do things, is refused: no");
        assert!(bad.todo.unwrap().contains("newer kernel"));
        let filtered = abilities(&system("6.1", Some("no"), true));
        assert!(filtered.todo.unwrap().contains("seccomp"));
    }
}
