use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn variables(text: &str) -> Variables {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    Variables::of(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

pub(super) fn read(text: &str) -> Said {
    variables(text).read().unwrap()
}

fn wrong(text: &str) -> String {
    variables(text).read().unwrap_err().join("\n")
}

pub(super) fn tcp(host: &str, port: u16) -> Option<Place> {
    Some(Place::Tcp { host: host.to_owned(), port })
}

#[test]
fn consort_runs_own_ranks_know_everything() {
    let said = read(
        "RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=999 CONSORT_RDZV=tcp://127.0.0.1:4000 \
         CONSORT_SECRET_FILE=/s CONSORT_JOB=abc CONSORT_EPOCH=3 CONSORT_TIMEOUT=5m CONSORT_LIVENESS=2s",
    );
    assert_eq!((said.rank, said.world, said.epoch), (Some(1), Some(4), Some(3)));
    assert_eq!(said.place, tcp("127.0.0.1", 4000));
    assert_eq!(said.timeout, Some(Duration::from_secs(300)));
    assert_eq!(said.liveness, Some(Duration::from_secs(2)));
}

#[test]
fn every_launcher_is_understood() {
    let place = "MASTER_ADDR=n0 MASTER_PORT=29500";
    for launcher in [
        "RANK=2 WORLD_SIZE=8",
        "SLURM_PROCID=2 SLURM_NTASKS=8",
        "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=8",
        "PMI_RANK=2 PMI_SIZE=8",
    ] {
        let said = read(&format!("{launcher} {place}"));
        assert_eq!((said.rank, said.world), (Some(2), Some(8)), "{launcher}");
        assert_eq!(said.place, tcp("n0", 29500));
    }
}

#[test]
fn the_inner_launcher_is_the_one_that_counts() {
    let said = read("PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=1 SLURM_NTASKS=2 RANK=3 WORLD_SIZE=4");
    assert_eq!((said.rank, said.world), (Some(3), Some(4)));
    // As sbatch sets them for its script, which each rank of an mpiexec in there has as well.
    let batch = "SLURM_PROCID=0 SLURM_NTASKS=64 SLURM_JOB_ID=770123 SLURM_JOB_NODELIST=node[01-04]";
    for mpiexec in ["PMI_RANK=3 PMI_SIZE=4", "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4"] {
        let said = read(&format!("{mpiexec} {batch}"));
        assert_eq!((said.rank, said.world, said.knows_mpi), (Some(3), Some(4), true), "{mpiexec}");
    }
}

#[test]
fn a_step_of_a_slurm_job_has_its_own_world() {
    let said = read("SLURM_PROCID=1 SLURM_NTASKS=64 SLURM_STEP_NUM_TASKS=2");
    assert_eq!(said.world, Some(2));
}

#[test]
fn torchruns_own_store_is_left_alone() {
    let torchrun =
        "RANK=0 WORLD_SIZE=2 MASTER_ADDR=n0 MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE";
    assert_eq!(read(&format!("{torchrun}=True")).place, tcp("n0", 29501));
    assert_eq!(read(&format!("{torchrun}=False")).place, tcp("n0", 29500));
}

#[test]
fn mpi_is_asked_where_to_meet_if_its_launcher_started_the_ranks_and_nobody_says() {
    // As srun sets them, for a step of two hosts with two tasks each.
    let slurm = "SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4 \
                 SLURM_NTASKS_PER_NODE=2 SLURM_JOB_ID=770123 SLURM_STEP_ID=0 \
                 SLURM_STEP_NODELIST=node[03-04] SLURM_JOB_NODELIST=node[01-04]";
    let open_mpi = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4";
    let mpich = "PMI_RANK=2 PMI_SIZE=4";
    for launcher in [slurm, open_mpi, mpich] {
        let said = read(launcher);
        assert_eq!((said.rank, said.world, said.knows_mpi), (Some(2), Some(4), true), "{launcher}");
        for place in ["MASTER_ADDR=n0 MASTER_PORT=29500", "CONSORT_RDZV=tcp://n0:29500"] {
            assert!(!read(&format!("{launcher} {place}")).knows_mpi, "{launcher} {place}");
        }
        assert!(!read(&format!("{launcher} RANK=0 WORLD_SIZE=2")).knows_mpi, "{launcher}");
    }
    assert!(!read("RANK=0 WORLD_SIZE=2").knows_mpi);
    // Without MPI there is still a place, for ranks that have a secret.
    assert_eq!(read(slurm).place, tcp("node03", 20_123));
}

#[test]
fn half_a_pair_is_missing_its_other_half() {
    assert!(wrong("RANK=1").contains("WORLD_SIZE is missing, though RANK is set"));
    assert!(wrong("WORLD_SIZE=2").contains("RANK is missing, though WORLD_SIZE is set"));
    assert!(wrong("MASTER_ADDR=a").contains("MASTER_PORT is missing"));
    assert!(wrong("MASTER_PORT=1").contains("MASTER_ADDR is missing"));
}

#[test]
fn contradictions_and_malformed_values_are_all_listed() {
    let all = wrong(
        "RANK=4 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=99999 CONSORT_TIMEOUT=5 CONSORT_TIMEOU=5s",
    );
    for part in [
        "RANK=4 is not below WORLD_SIZE=4",
        "MASTER_PORT=99999 is not a number that fits",
        "CONSORT_TIMEOUT=5: a length of time is",
        "CONSORT_TIMEOU is not known; there are CONSORT_RDZV",
    ] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
}

#[test]
fn options_are_read_and_what_is_wrong_with_them_is_listed() {
    let said = read("CONSORT_TRANSPORT=tcp CONSORT_ENCRYPT=on CONSORT_STREAMS=2").wishes;
    assert_eq!(said.transport, Some(crate::Transport::Tcp));
    assert_eq!((said.encrypt, said.integrity, said.streams), (Some(true), None, Some(2)));
    let all = wrong("CONSORT_TRANSPORT=udp CONSORT_ENCRYPT=x CONSORT_STREAM=2");
    for part in [
        "CONSORT_TRANSPORT=udp: no transport \"udp\"; choose auto, shm or tcp",
        "CONSORT_ENCRYPT=x: give on or off",
        "CONSORT_STREAM is not known; there are CONSORT_RDZV",
    ] {
        assert!(all.contains(part), "{part} in\n{all}");
    }
}

#[test]
fn when_to_warn_is_a_time_or_off() {
    assert_eq!(read("CONSORT_WARN_AFTER=5s").warn_after, Some(Some(Duration::from_secs(5))));
    assert_eq!(read("CONSORT_WARN_AFTER=off").warn_after, Some(None));
    assert_eq!(read("").warn_after, None);
    for value in ["0s", "5", "never"] {
        let all = wrong(&format!("CONSORT_WARN_AFTER={value}"));
        assert!(all.ends_with(", or off"), "{all}");
        assert!(check_variable("CONSORT_WARN_AFTER", value).is_err());
    }
    assert_eq!(check_variable("CONSORT_WARN_AFTER", "off"), Ok(()));
}

#[test]
fn every_option_is_a_known_variable() {
    for name in OPTIONS {
        assert!(VARIABLES.contains(&name), "{name}");
    }
}

#[test]
fn an_empty_variable_is_not_set() {
    let empty = [("RANK", ""), ("WORLD_SIZE", "")];
    let variables = Variables::of(empty.map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter());
    assert_eq!(variables.read().unwrap(), Said::default());
    assert_eq!(variables.found(), "found: nothing");
}

proptest! {
    #[test]
    fn any_values_are_judged_without_harm(
        values in prop::collection::vec(("[A-Z_]{0,6}", ".{0,20}"), 0..6),
        name in prop::sample::select(known().collect::<Vec<_>>()),
        value in ".{0,30}",
    ) {
        let mut values = values;
        values.push((name.to_owned(), value));
        let _ = Variables::of(values.into_iter()).read();
    }
}

#[test]
fn a_debug_level_is_one_of_three() {
    use crate::DebugLevel;
    for (text, level) in
        [("off", DebugLevel::Off), ("info", DebugLevel::Info), ("detail", DebugLevel::Detail)]
    {
        assert_eq!(read(&format!("CONSORT_DEBUG={text}")).debug, Some(level));
        assert_eq!(check_variable("CONSORT_DEBUG", text), Ok(()));
    }
    assert_eq!(read("").debug, None);
    let refusal = r#"no debug level "all"; choose off, info or detail"#;
    assert_eq!(wrong("CONSORT_DEBUG=all"), format!("CONSORT_DEBUG=all: {refusal}"));
    assert_eq!(check_variable("CONSORT_DEBUG", "all"), Err(refusal.to_owned()));
}
