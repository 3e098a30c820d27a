//! The variables a rank finds its place by: those that torchrun sets, and our own.

use std::ffi::OsString;
use std::path::Path;

use consort::duration;

use super::placement::Placement;
use super::settings::Settings;

/// What goes into a rank's environment beside its placement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// What the user asked for.
    pub(crate) settings: &'a Settings,
    /// Where a PyTorch program may leave the reason of its failure.
    pub(crate) error_file: Option<&'a Path>,
    /// Where it leaves a record of what it does.
    pub(crate) trace_dir: Option<&'a Path>,
    /// Cores that the ranks of this host share.
    pub(crate) cores: u32,
}

/// The variables of one rank. `is_set` tells what the user's own environment has: a few of ours
/// are only suggestions.
pub(crate) fn variables(
    place: &Placement,
    local_rank: u32,
    around: &Surroundings<'_>,
    is_set: impl Fn(&str) -> bool,
) -> Vec<(&'static str, OsString)> {
    let mut variables = torchrun_variables(place, local_rank, around);
    variables.extend(our_variables(place, around));
    variables.extend(suggestions(place, around).into_iter().filter(|(name, _)| !is_set(name)));
    variables
}

fn torchrun_variables(
    place: &Placement,
    local_rank: u32,
    around: &Surroundings<'_>,
) -> Vec<(&'static str, OsString)> {
    let rank = place.rank(local_rank).to_string();
    let world = place.world.to_string();
    let mut variables = vec![
        ("RANK", rank.clone().into()),
        ("WORLD_SIZE", world.clone().into()),
        ("LOCAL_RANK", local_rank.to_string().into()),
        ("LOCAL_WORLD_SIZE", place.local_world.to_string().into()),
        ("GROUP_RANK", place.node.to_string().into()),
        ("GROUP_WORLD_SIZE", place.nodes.to_string().into()),
        ("ROLE_NAME", "default".into()),
        ("ROLE_RANK", rank.into()),
        ("ROLE_WORLD_SIZE", world.into()),
        ("MASTER_ADDR", place.master_address.clone().into()),
        ("MASTER_PORT", place.master_port.to_string().into()),
        ("TORCHELASTIC_RESTART_COUNT", place.restarts.to_string().into()),
        ("TORCHELASTIC_MAX_RESTARTS", around.settings.max_restarts.to_string().into()),
        ("TORCHELASTIC_RUN_ID", place.job.clone().into()),
        // The store at MASTER_PORT is rank 0's own, not the launcher's.
        ("TORCHELASTIC_USE_AGENT_STORE", "False".into()),
    ];
    if let Some(file) = around.error_file {
        variables.push(("TORCHELASTIC_ERROR_FILE", file.into()));
    }
    variables
}

fn our_variables(place: &Placement, around: &Surroundings<'_>) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("CONSORT_JOB", place.job.clone().into()),
        ("CONSORT_EPOCH", place.epoch.to_string().into()),
        ("CONSORT_SECRET_FILE", place.secret_file.clone().into()),
        ("CONSORT_RDZV", place.store.clone().into()),
    ];
    if let Some(folder) = around.trace_dir {
        variables.push(("CONSORT_TRACE_DIR", folder.into()));
    }
    if let Some(timeout) = around.settings.timeout {
        variables.push(("CONSORT_TIMEOUT", duration::write(timeout).into()));
    }
    if let Some(liveness) = around.settings.liveness {
        variables.push(("CONSORT_LIVENESS", duration::write(liveness).into()));
    }
    if let Some(debug) = around.settings.debug {
        variables.push(("CONSORT_DEBUG", debug.to_string().into()));
    }
    let data_plane = around.settings.data_plane.variables();
    variables.extend(data_plane.map(|(name, value)| (name, value.into())));
    variables
}

fn suggestions(place: &Placement, around: &Surroundings<'_>) -> Vec<(&'static str, OsString)> {
    // Python holds back what it writes to a pipe; lines would come late and out of order.
    let mut variables = vec![("PYTHONUNBUFFERED", "1".into())];
    if place.local_world > 1 {
        let threads = (around.cores / place.local_world).max(1);
        // Those of PyTorch and of candle: ranks would otherwise take each other's cores.
        for name in ["OMP_NUM_THREADS", "RAYON_NUM_THREADS"] {
            variables.push((name, threads.to_string().into()));
        }
    }
    variables
}

/// Variables that another launcher, outside this one, may have left and that are not for our ranks.
pub(crate) const OUTER: [&str; 2] = ["TORCHELASTIC_ERROR_FILE", JOIN];

/// Has a rank join others that run.
pub(crate) const JOIN: &str = "CONSORT_JOIN";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::settings::tests::settings;

    fn second_host() -> Placement {
        Placement {
            job: "j1".to_owned(),
            epoch: 7,
            restarts: 2,
            node: 1,
            nodes: 3,
            first_rank: 4,
            local_world: 2,
            slots: vec![4, 2, 4],
            world: 10,
            master_address: "10.0.0.1".to_owned(),
            master_port: 4242,
            store: "tcp://10.0.0.1:29400".to_owned(),
            secret_file: "/secret".into(),
        }
    }

    fn text(place: &Placement, line: &str, set: &[&str]) -> BTreeMap<&'static str, String> {
        let settings = settings(line).unwrap();
        let around = Surroundings {
            settings: &settings,
            error_file: settings.log_dir.as_deref(),
            trace_dir: Some("/records".as_ref()),
            cores: 6,
        };
        let list = variables(place, 1, &around, |name| set.contains(&name));
        let count = list.len();
        let map: BTreeMap<_, _> =
            list.into_iter().map(|(name, value)| (name, value.into_string().unwrap())).collect();
        assert_eq!(map.len(), count, "a variable is named twice");
        map
    }

    #[test]
    fn a_rank_learns_its_place_in_torchruns_words() {
        let found = text(&second_host(), "--max-restarts 3 p", &[]);
        for (name, value) in [
            ("RANK", "5"),
            ("WORLD_SIZE", "10"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("GROUP_RANK", "1"),
            ("GROUP_WORLD_SIZE", "3"),
            ("ROLE_NAME", "default"),
            ("ROLE_RANK", "5"),
            ("ROLE_WORLD_SIZE", "10"),
            ("MASTER_ADDR", "10.0.0.1"),
            ("MASTER_PORT", "4242"),
            ("TORCHELASTIC_RESTART_COUNT", "2"),
            ("TORCHELASTIC_MAX_RESTARTS", "3"),
            ("TORCHELASTIC_RUN_ID", "j1"),
            ("TORCHELASTIC_USE_AGENT_STORE", "False"),
            ("CONSORT_JOB", "j1"),
            ("CONSORT_EPOCH", "7"),
            ("CONSORT_RDZV", "tcp://10.0.0.1:29400"),
            ("CONSORT_SECRET_FILE", "/secret"),
            ("CONSORT_TRACE_DIR", "/records"),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn options_that_were_not_given_set_nothing() {
        let found = text(&second_host(), "p", &[]);
        for name in [
            "CONSORT_TIMEOUT",
            "CONSORT_LIVENESS",
            "CONSORT_TRANSPORT",
            "CONSORT_ENCRYPT",
            "CONSORT_DEBUG",
            "TORCHELASTIC_ERROR_FILE",
        ] {
            assert!(!found.contains_key(name), "{name}");
        }
        let line =
            "--timeout 90s --liveness 500ms --transport shm --encrypt --debug info --log-dir /d p";
        let found = text(&second_host(), line, &[]);
        assert_eq!(found["CONSORT_TIMEOUT"], "90s");
        assert_eq!(found["CONSORT_LIVENESS"], "500ms");
        assert_eq!(found["CONSORT_TRANSPORT"], "shm");
        assert_eq!(found["CONSORT_ENCRYPT"], "on");
        assert_eq!(found["CONSORT_DEBUG"], "info");
        assert_eq!(found["TORCHELASTIC_ERROR_FILE"], "/d");
    }

    #[test]
    fn the_users_own_choices_are_kept() {
        let found = text(&second_host(), "p", &["OMP_NUM_THREADS", "PYTHONUNBUFFERED"]);
        assert!(!found.contains_key("OMP_NUM_THREADS"));
        assert!(!found.contains_key("PYTHONUNBUFFERED"));
    }

    #[test]
    fn ranks_share_the_cores_and_a_lone_rank_has_them_all() {
        let threads = |ranks| {
            let place = Placement { local_world: ranks, ..second_host() };
            let found = text(&place, "p", &[]);
            assert_eq!(found.get("OMP_NUM_THREADS"), found.get("RAYON_NUM_THREADS"));
            found.get("OMP_NUM_THREADS").cloned()
        };
        assert_eq!(threads(1), None);
        assert_eq!(threads(2).as_deref(), Some("3"));
        assert_eq!(threads(64).as_deref(), Some("1"));
    }
}
