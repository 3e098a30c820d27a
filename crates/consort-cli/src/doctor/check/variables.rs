//! Variables of the environment that would change a job.

use consort::Engine;

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;
use crate::run::data_plane::{BACKEND, FAKE};
use crate::run::inherited::{check_known, meant_by};

/// What is set for consort, and whether ranks take it. `faulty` are those that other findings call bad.
pub(crate) fn settings(variables: &[(String, String)], faulty: &[&str]) -> Finding {
    let own = variables.iter().filter(|(name, _)| name.starts_with(OWN) && !is_given_by_run(name));
    let (known, unknown): (Vec<_>, Vec<_>) = own.partition(|(name, _)| is_setting(name));
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("{}: consort has no such setting", words::list(&names));
        let meant: Vec<&str> = names.into_iter().filter_map(meant_by).collect();
        let there = format!("there are {}", words::list(&consort::VARIABLES));
        let todo = match &meant[..] {
            [] => there,
            meant => format!("did you mean {}? {there}", words::list(meant)),
        };
        return Finding::warning(Area::Variables, what, todo);
    }
    if known.is_empty() {
        return Finding::good(
            Area::Variables,
            "no CONSORT_ variable is set: everything at its default",
        );
    }
    values(&known, faulty)
}

/// Whether ranks take these values, and what comes of them.
fn values(settings: &[&(String, String)], faulty: &[&str]) -> Finding {
    let judged = settings.iter().filter(|(name, value)| !value.is_empty() && !is_elsewhere(name));
    let refusals = judged.filter_map(|(name, value)| check_known(name, value).err());
    let refusals: Vec<String> = refusals.collect();
    if !refusals.is_empty() {
        return Finding::bad(Area::Variables, refusals.join("; "), "correct it, or unset it");
    }
    let shown: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let what = format!("every job here has {}", words::list(&shown));
    let is_fake =
        |(name, value): &&(String, String)| name == BACKEND && value == Engine::Fake.name();
    if settings.iter().any(is_fake) {
        return Finding::warning(
            Area::Variables,
            format!("{what}: with fake {FAKE}"),
            "unset it, unless a program is to be tried as one of many ranks",
        );
    }
    if faulty.is_empty() {
        return Finding::good(Area::Variables, what);
    }
    let todo = format!("of no use as it stands: {}; another line says why", words::list(faulty));
    Finding::note(Area::Variables, what, todo)
}

/// Those of which other findings say that they are bad.
pub(crate) fn faulty(facts: &Facts) -> Vec<&str> {
    let Facts { network, files, engines, .. } = facts;
    let is_faulty = |name: &str, value: &str| match name {
        _ if value.is_empty() => false,
        "CONSORT_INTERFACE" => network.choice.is_err(),
        "CONSORT_SECRET_FILE" => files.secret.as_ref().is_some_and(|file| file.read.is_err()),
        "CONSORT_MPI_LIBRARY" => engines.mpi.is_err(),
        "CONSORT_NCCL_LIBRARY" | "CONSORT_CUDA_LIBRARY" => engines.nccl.is_err(),
        BACKEND if value == Engine::Mpi.name() => engines.mpi.is_err(),
        BACKEND if value == Engine::Nccl.name() => engines.nccl.is_err(),
        _ => false,
    };
    let faulty = facts.variables.iter().filter(|(name, value)| is_faulty(name, value));
    faulty.map(|(name, _)| name.as_str()).collect()
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

fn is_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&name)
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
        let settings = |variables: &[(String, String)]| settings(variables, &[]);
        let none = settings(&variables(&["PATH", "CONSORTIUM"]));
        assert_eq!(none.verdict, Verdict::Good);
        let set = [("CONSORT_LOG", "debug"), ("CONSORT_TIMEOUT", "9s"), ("CONSORT_JOB", "j")];
        let known = settings(&set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(known.what, "every job here has CONSORT_LOG=debug and CONSORT_TIMEOUT=9s");
        let misspelt = settings(&variables(&["CONSORT_LOG", "CONSORT_INTERFAEC"]));
        assert_eq!(misspelt.verdict, Verdict::Warning);
        assert!(misspelt.what.starts_with("CONSORT_INTERFAEC:"));
        let todo = misspelt.todo.unwrap();
        assert!(todo.starts_with("did you mean CONSORT_INTERFACE? there are CONSORT_"), "{todo}");
        let strange = settings(&variables(&["CONSORT_PASSWORD"]));
        assert!(strange.todo.unwrap().starts_with("there are CONSORT_"));
    }

    #[test]
    fn a_value_that_ranks_refuse_is_bad_in_their_words() {
        for (name, value, words) in [
            ("CONSORT_BACKEND", "nonsense", "refuse"),
            ("CONSORT_TIMEOUT", "abc", "refuse"),
            ("CONSORT_TRANSPORT", "nonsense", "auto, shm or tcp"),
            ("CONSORT_ENCRYPT", "zz", "on or off"),
        ] {
            let finding = settings(&[(name.to_owned(), value.to_owned())], &[]);
            assert_eq!(finding.verdict, Verdict::Bad, "{finding:?}");
            let what = &finding.what;
            assert!(what.contains(&format!("{name}={value}")) && what.contains(words), "{what}");
        }
        let empty = settings(&[("CONSORT_TIMEOUT".to_owned(), String::new())], &[]);
        assert_eq!(empty.verdict, Verdict::Good);
    }

    #[test]
    fn an_engine_that_computes_nothing_is_a_warning() {
        let finding = settings(&[("CONSORT_BACKEND".to_owned(), "fake".to_owned())], &[]);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.what.contains("nobody carries out calls"), "{}", finding.what);
    }

    #[test]
    fn libraries_are_shown_as_everything_is() {
        for (value, shown) in [("", "CONSORT_MPI_LIBRARY="), ("/x", "CONSORT_MPI_LIBRARY=/x")] {
            let library = ("CONSORT_MPI_LIBRARY".to_owned(), value.to_owned());
            let finding = settings(&[library], &[]);
            assert_eq!(finding.verdict, Verdict::Good);
            assert_eq!(finding.what, format!("every job here has {shown}"));
        }
    }

    #[test]
    fn what_another_finding_calls_bad_is_not_called_good() {
        let set = [("CONSORT_SECRET_FILE", "/nope"), ("CONSORT_LOG", "debug")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let finding = settings(&set, &["CONSORT_SECRET_FILE"]);
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(finding.what.ends_with("CONSORT_SECRET_FILE=/nope and CONSORT_LOG=debug"));
        let todo = finding.todo.unwrap();
        assert_eq!(todo, "of no use as it stands: CONSORT_SECRET_FILE; another line says why");
    }

    #[test]
    fn the_value_of_an_unknown_variable_is_not_shown() {
        let odd = [("CONSORT_PASSWORD".to_owned(), "hunter2".to_owned())];
        let finding = settings(&odd, &[]);
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
