//! Processes that meet as their environment says, each with variables of its own.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod port;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use consort::Secret;

use self::port::ReservedPort;

#[test]
fn ranks_of_consort_run_meet() {
    let (secret, port) = (secret_file(), ReservedPort::within(0..=0));
    meet(|rank| {
        format!(
            "RANK={rank} WORLD_SIZE=2 CONSORT_RDZV=tcp://127.0.0.1:{} CONSORT_SECRET_FILE={}",
            port.number,
            secret.path().join("secret").display()
        )
    });
}

#[test]
fn ranks_of_torchrun_meet() {
    let (secret, port) = (secret_file(), ReservedPort::within(0..=0));
    meet(|rank| {
        format!(
            "RANK={rank} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={} CONSORT_SECRET_FILE={}",
            port.number,
            secret.path().join("secret").display()
        )
    });
}

#[test]
fn ranks_of_slurm_meet() {
    // The port follows from the job's number.
    let (secret, port) = (secret_file(), ReservedPort::within(20_000..=29_999));
    let job = 770_000 + u32::from(port.number) - 20_000;
    meet(|rank| {
        format!(
            "SLURM_PROCID={rank} SLURM_NTASKS=2 SLURM_JOB_ID={job} SLURM_JOB_NODELIST=127.0.0.1 \
             CONSORT_SECRET_FILE={}",
            secret.path().join("secret").display()
        )
    });
}

#[test]
fn ranks_meet_over_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("meeting");
    meet(|rank| format!("RANK={rank} WORLD_SIZE=2 CONSORT_RDZV=file://{}", path.display()));
}

#[test]
fn what_is_missing_is_told_beside_what_was_found() {
    let [said] = run(["RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500".to_owned()]);
    assert!(said.contains("WORLD_SIZE is missing, though RANK is set"), "{said}");
    assert!(said.contains("found: MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 RANK=1"), "{said}");
}

#[test]
fn a_wrong_value_is_told_without_advice_that_does_not_help() {
    let [said] = run(["RANK=0 WORLD_SIZE=1 CONSORT_BACKEND=bogus".to_owned()]);
    assert!(said.contains("CONSORT_BACKEND=bogus: "), "{said}");
    assert!(!said.contains("consort run"), "{said}");
}

/// The processes of all tests here begin in this one.
#[test]
fn a_process_without_a_launcher_is_told_what_to_do() {
    if std::env::var_os(CHILD).is_some() {
        return be_a_rank();
    }
    let [said] = run([String::new()]);
    assert!(said.contains("found: nothing"), "{said}");
    assert!(said.contains("`consort run -n N -- PROGRAM` sets all of it"), "{said}");
}

fn be_a_rank() {
    match consort::init() {
        Ok(group) => {
            group.barrier().unwrap();
            println!("met as rank {} of {}", group.rank(), group.world());
        }
        Err(error) => println!("{error}"),
    }
}

/// Starts two ranks, each with its own environment, and expects them to meet.
fn meet(environment: impl Fn(u32) -> String) {
    let said = run([0, 1].map(|rank| format!("{} CONSORT_TIMEOUT=60s", environment(rank))));
    for (rank, said) in said.iter().enumerate() {
        assert!(said.contains(&format!("met as rank {rank} of 2\n")), "{said}");
    }
}

/// Starts one process for each environment, and returns what they print.
fn run<const N: usize>(environments: [String; N]) -> [String; N] {
    let started = environments.map(|environment| {
        let variables = environment.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        Command::new(std::env::current_exe().unwrap())
            .args(["a_process_without_a_launcher_is_told_what_to_do", "--exact", "--nocapture"])
            .env_clear()
            .env(CHILD, "")
            .envs(variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    });
    started.map(|process| String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap())
}

/// A directory with a file named `secret`.
fn secret_file() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_secret(&directory.path().join("secret"));
    directory
}

fn write_secret(path: &Path) {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).unwrap();
    file.write_all(Secret::generate().unwrap().to_hex().as_bytes()).unwrap();
}

const CHILD: &str = "TESTKIT_CHILD";
