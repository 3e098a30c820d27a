//! How processes end, as MPI's launcher sees it: one that has not ended MPI in order has failed, and the others
//! with it.

use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use consort_testkit::{Mpi, Skip, skip};

#[test]
fn processes_that_leave_in_good_order_end_well_however_late_one_is() {
    if let Some(way) = std::env::var_os(CHILD) {
        return be_a_rank(way.to_str().unwrap());
    }
    for way in ["leave", "keep-nothing"] {
        let ended = match launch(way, &[]) {
            Ok(ended) => ended,
            Err(reason) => return skip(reason),
        };
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{way}: {ended:?}");
        assert_eq!(told.matches("is done").count(), 3, "{told}");
    }
}

#[test]
fn a_process_that_exits_while_others_wait_for_it_fails_the_job_and_keeps_nobody_waiting() {
    let ended = match launch("exit", &[]) {
        Ok(ended) => ended,
        Err(reason) => return skip(reason),
    };
    assert!(!ended.status.success(), "{ended:?}");
}

#[test]
fn a_process_that_ends_without_exiting_keeps_the_others_no_longer_than_they_need_to_see_it() {
    let ended = match launch("vanish", &["-disable-auto-cleanup"]) {
        Ok(ended) => ended,
        Err(reason) => return skip(reason),
    };
    let (told, warned) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(told.matches("is done").count(), 2, "{told}");
    assert_eq!(warned.matches("has ended without it").count(), 2, "{warned}");
}

/// The part of a process in each test.
fn be_a_rank(way: &str) {
    let group = consort::init().unwrap();
    let rank = group.rank().get();
    group.barrier().unwrap();
    match way {
        "exit" if rank == 1 => std::process::exit(1),
        "exit" => drop(group.barrier()),
        "vanish" if rank == 1 => {
            drop(group);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(0) };
        }
        "keep-nothing" | "vanish" => drop(group),
        _ => {
            drop(group);
            // The others must not end the job before it is done.
            thread::sleep(Duration::from_millis(700 * u64::from(rank)));
        }
    }
    println!("rank {rank} is done");
}

/// Has MPI's launcher start three, and waits for its end.
fn launch(way: &str, options: &[&str]) -> Result<Output, Skip> {
    let mpi = Mpi::find()?;
    let first = "endings::processes_that_leave_in_good_order_end_well_however_late_one_is";
    let mut launcher = mpi
        .launcher()
        .args(options)
        .args(["-n", "3"])
        .arg(std::env::current_exe().unwrap())
        .args([first, "--exact", "--nocapture"])
        .env(CHILD, way)
        .env("CONSORT_BACKEND", "mpi")
        .env("CONSORT_MPI_LIBRARY", mpi.library())
        .env("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while launcher.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            launcher.kill().unwrap();
            panic!("{way}: it did not end: {:?}", launcher.wait_with_output());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(launcher.wait_with_output().unwrap())
}

const CHILD: &str = "CHILD_OF_ENDINGS";
const LIMIT: Duration = Duration::from_secs(60);
