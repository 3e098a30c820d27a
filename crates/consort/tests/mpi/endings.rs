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
fn a_process_that_exits_as_if_all_were_well_while_others_wait_for_it_says_so() {
    // What the launcher makes of it differs from time to time.
    let ended = match launch("exit-well", &[]) {
        Ok(ended) => ended,
        Err(reason) => return skip(reason),
    };
    let warned = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(warned.matches("rank 1 exits and has not left group world:").count(), 1, "{warned}");
    assert!(!String::from_utf8_lossy(&ended.stdout).contains("is done"), "{ended:?}");
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

#[test]
fn nothing_is_on_its_way_when_mpi_ends_however_ranks_leave() {
    // Ranks of one host behave like those of several, whose library says what was never received.
    let apart = ["-genv", "MPIR_CVAR_NOLOCAL", "1"];
    for way in ["keep-nothing", "leave", "split"].repeat(4) {
        let ended = match launch_as(4, way, &apart) {
            Ok(ended) => ended,
            Err(reason) => return skip(reason),
        };
        let warned = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{way}: {ended:?}");
        assert!(!warned.contains("was not matched"), "{way}: {warned}");
    }
}

/// The part of a process in each test.
fn be_a_rank(way: &str) {
    let group = consort::init().unwrap();
    let rank = group.rank().get();
    group.barrier().unwrap();
    match way {
        "exit" if rank == 1 => std::process::exit(1),
        "exit-well" if rank == 1 => std::process::exit(0),
        "exit" | "exit-well" => {
            drop(group.barrier());
            std::process::exit(1);
        }
        "vanish" if rank == 1 => {
            drop(group);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(0) };
        }
        "keep-nothing" | "vanish" => drop(group),
        "split" => {
            for round in 0..3 {
                let part = group.split(Some((rank + round) % 2), 0).unwrap().unwrap();
                // One leaves a part while the other is still in it.
                thread::sleep(Duration::from_millis(30 * u64::from(rank / 2 * round)));
                drop(part);
            }
        }
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
    launch_as(3, way, options)
}

/// The same for so many.
fn launch_as(world: u32, way: &str, options: &[&str]) -> Result<Output, Skip> {
    let mpi = Mpi::find()?;
    let first = "endings::processes_that_leave_in_good_order_end_well_however_late_one_is";
    let mut launcher = mpi
        .launcher()
        .args(options)
        .args(["-n", &world.to_string()])
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
