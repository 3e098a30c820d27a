//! Variables of the environment that would change a job.

use consort::Engine;

use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;
use crate::run::data_plane::{BACKEND, FAKE};
use crate::run::inherited::check_known;

/// What is set for consort, but for what others have findings about.
pub(crate) fn settings(variables: &[(String, String)]) -> Option<Finding> {
    let own = variables.iter().filter(|(name, _)| name.starts_with(OWN) && !is_given_by_run(name));
    let (known, unknown): (Vec<_>, Vec<_>) = own.partition(|(name, _)| is_setting(name));
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("{}: consort has no such setting", words::list(&names));
        return Some(Finding::warning(
            Area::Variables,
            what,
            format!("there are {}", words::list(&consort::VARIABLES)),
        ));
    }
    if known.is_empty() {
        return Some(Finding::good(
            Area::Variables,
            "no CONSORT_ variable is set: everything at its default",
        ));
    }
    let judged: Vec<_> =
        known.into_iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str())).collect();
    values(&judged)
}

/// Whether ranks take these values, and what comes of them.
fn values(settings: &[&(String, String)]) -> Option<Finding> {
    let is_set = |(_, value): &&&(String, String)| !value.is_empty();
    let refusals = settings.iter().filter(is_set);
    let refusals = refusals.filter_map(|(name, value)| check_known(name, value).err());
    let refusals: Vec<String> = refusals.collect();
    if !refusals.is_empty() {
        return Some(Finding::bad(Area::Variables, refusals.join("; "), "correct it, or unset it"));
    }
    let shown: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if shown.is_empty() {
        return None;
    }
    let what = format!("every job here has {}", words::list(&shown));
    let is_fake =
        |(name, value): &&(String, String)| name == BACKEND && value == Engine::Fake.name();
    Some(match settings.iter().any(is_fake) {
        true => Finding::warning(
            Area::Variables,
            format!("{what}: with fake {FAKE}"),
            "unset it, unless a program is to be tried as one of many ranks",
        ),
        false => Finding::good(Area::Variables, what),
    })
}

/// What other launchers have left, or have set because this is one of their ranks.
pub(crate) fn leftovers(variables: &[(String, String)]) -> Vec<Finding> {
    let set = |name: &str| variables.iter().any(|(own, _)| own == name);
    let mut findings = Vec::new();
    let places: Vec<&str> =
        PLACES.into_iter().filter(|name| set(name)).chain(given_by_run(variables)).collect();
    if !places.is_empty() {
        let is = if places.len() == 1 { "is" } else { "are" };
        let what = format!(
            "{} {is} set: a program started here without a launcher takes itself for a rank of that job",
            words::list(&places)
        );
        findings.push(Finding::warning(
            Area::Variables,
            what,
            format!("unset {}", places.join(" ")),
        ));
    }
    for (name, launcher) in LAUNCHERS {
        if set(name) {
            let what =
                format!("{name} is set: a program started here is a rank of {launcher}'s job");
            findings.push(Finding::good(Area::Variables, what));
        }
    }
    findings
}

fn is_setting(name: &str) -> bool {
    consort::VARIABLES.contains(&name)
}

fn is_given_by_run(name: &str) -> bool {
    GIVEN_BY_RUN.contains(&name)
}

fn given_by_run(variables: &[(String, String)]) -> impl Iterator<Item = &str> {
    variables.iter().map(|(name, _)| name.as_str()).filter(|name| is_given_by_run(name))
}

const OWN: &str = "CONSORT_";
/// What Network and Engines have findings about: whether it is good depends on what there is.
const ELSEWHERE: [&str; 4] =
    ["CONSORT_INTERFACE", "CONSORT_MPI_LIBRARY", "CONSORT_NCCL_LIBRARY", "CONSORT_CUDA_LIBRARY"];
/// What `consort run` tells its ranks.
const GIVEN_BY_RUN: [&str; 3] = ["CONSORT_JOB", "CONSORT_EPOCH", "CONSORT_RDZV"];
/// What torchrun and `consort run` tell their ranks.
const PLACES: [&str; 6] =
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
const LAUNCHERS: [(&str, &str); 4] = [
    ("SLURM_PROCID", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("PMI_RANK", "an MPI"),
    ("PMIX_RANK", "an MPI"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn variables(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect()
    }

    #[test]
    fn settings_are_shown_and_a_misspelt_one_is_a_warning() {
        let settings = |variables: &[(String, String)]| settings(variables).unwrap();
        let none = settings(&variables(&["PATH", "CONSORTIUM"]));
        assert_eq!(none.verdict, Verdict::Good);
        let set = [("CONSORT_LOG", "debug"), ("CONSORT_TIMEOUT", "9s"), ("CONSORT_JOB", "j")];
        let known = settings(&set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(known.what, "every job here has CONSORT_LOG=debug and CONSORT_TIMEOUT=9s");
        let misspelt = settings(&variables(&["CONSORT_LOG", "CONSORT_INTERFAEC"]));
        assert_eq!(misspelt.verdict, Verdict::Warning);
        assert!(misspelt.what.starts_with("CONSORT_INTERFAEC:"));
        assert!(misspelt.todo.unwrap().contains("CONSORT_INTERFACE"));
    }

    #[test]
    fn a_value_that_ranks_refuse_is_bad_in_their_words() {
        for (name, value, words) in [
            ("CONSORT_BACKEND", "nonsense", "refuse"),
            ("CONSORT_TIMEOUT", "abc", "refuse"),
            ("CONSORT_TRANSPORT", "nonsense", "auto, shm or tcp"),
            ("CONSORT_ENCRYPT", "zz", "on or off"),
        ] {
            let finding = settings(&[(name.to_owned(), value.to_owned())]).unwrap();
            assert_eq!(finding.verdict, Verdict::Bad, "{finding:?}");
            let what = &finding.what;
            assert!(what.contains(&format!("{name}={value}")) && what.contains(words), "{what}");
        }
        let empty = settings(&[("CONSORT_TIMEOUT".to_owned(), String::new())]).unwrap();
        assert_eq!(empty.verdict, Verdict::Good);
    }

    #[test]
    fn an_engine_that_computes_nothing_is_a_warning() {
        let finding = settings(&[("CONSORT_BACKEND".to_owned(), "fake".to_owned())]).unwrap();
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.what.contains("nobody carries out calls"), "{}", finding.what);
    }

    #[test]
    fn a_file_is_not_called_good_before_it_is_looked_at() {
        let library = ("CONSORT_MPI_LIBRARY".to_owned(), "/nope".to_owned());
        assert_eq!(settings(std::slice::from_ref(&library)), None);
        let both = settings(&[library, ("CONSORT_LOG".to_owned(), "debug".to_owned())]).unwrap();
        assert_eq!(both.what, "every job here has CONSORT_LOG=debug");
    }

    #[test]
    fn the_value_of_an_unknown_variable_is_not_shown() {
        let odd = [("CONSORT_PASSWORD".to_owned(), "hunter2".to_owned())];
        let finding = settings(&odd);
        assert!(!format!("{finding:?}").contains("hunter2"));
    }

    #[test]
    fn a_place_left_over_from_a_launcher_is_a_warning() {
        assert_eq!(leftovers(&variables(&["PATH", "LOCAL"])), []);
        let [finding] = &leftovers(&variables(&["RANK", "WORLD_SIZE", "CONSORT_JOB"]))[..] else {
            panic!("one finding");
        };
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.todo.as_deref(), Some("unset RANK WORLD_SIZE CONSORT_JOB"));
        let alone = leftovers(&variables(&["MASTER_PORT"]));
        assert!(alone[0].what.starts_with("MASTER_PORT is set"));
    }

    #[test]
    fn other_launchers_are_told_without_a_warning() {
        let [finding] = &leftovers(&variables(&["SLURM_PROCID"]))[..] else {
            panic!("one finding");
        };
        assert_eq!(finding.verdict, Verdict::Good);
        assert!(finding.what.contains("Slurm"));
    }
}
