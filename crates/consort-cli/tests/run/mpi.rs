//! Ranks that `consort run` starts and that MPI connects, which this launcher serves as MPI's own does.

use std::process::Command;
use std::time::Duration;
use std::{env, fs, process, thread};

use consort::{Error, Group, ReduceOp};
use consort_testkit::{Mpi, skip};

use crate::cluster::Cluster;
use crate::launch::{Finished, Launch, sorted_lines};
use crate::program::program;

#[test]
fn ranks_are_one_world_to_mpi_and_have_all_that_the_launcher_gives() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        println!("{} works", group.backend_name().unwrap());
    });
    for world in [2, 3] {
        let Some(run) = launch(&["-n", &world.to_string()], &program) else { return };
        let run = run.finish_cleanly();
        assert_eq!(run.code, 0, "{run:?}");
        let expected: Vec<String> = (0..world).map(|rank| format!("[{rank}] mpi works")).collect();
        assert_eq!(works(&run.stdout), expected, "{run:?}");
    }
}

#[test]
fn mpi_can_be_asked_for_by_the_launchers_environment() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        println!("{} works", group.backend_name().unwrap());
    });
    let Some(mut command) = command() else { return };
    command.env("CONSORT_BACKEND", "mpi").args(["-n", "2", "--"]).args(&program);
    // Another launcher of MPI may be outside this one.
    command.env("PMI_FD", "77").env("PMI_RANK", "5").env("PMI_SIZE", "6").env("PMI_PORT", "x:1");
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(works(&run.stdout), ["[0] mpi works", "[1] mpi works"], "{run:?}");
}

#[test]
fn a_rank_that_is_killed_ends_the_job_and_nothing_of_mpi_is_left() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        println!("memory {}", memory_of_mpi());
        group.barrier().unwrap();
        if group.rank().get() == 1 {
            kill_this_process();
        }
        // The launcher ends it, or it hears of the death first.
        let error = group.all_reduce(&mut [1_u8; 9], ReduceOp::Max).unwrap_err();
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error:?}");
        process::exit(9);
    });
    let Some(run) = launch(&["-n", "3"], &program) else { return };
    let run = run.finish_cleanly();
    assert_eq!(run.code, 128 + 9, "{run:?}");
    assert!(run.stderr.contains("rank 1 failed: killed by SIGKILL"), "{run:?}");
    let memory = run.stdout.lines().find_map(|line| line.split_once("] memory ")).unwrap().1;
    assert!(memory.starts_with("/dev/shm/mpich_shm"), "{memory}");
    assert!(!fs::exists(memory).unwrap(), "{memory} is left");
}

#[test]
fn ranks_that_are_started_again_are_a_new_world() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        if env::var("TORCHELASTIC_RESTART_COUNT").unwrap() == "0" {
            group.barrier().unwrap();
            process::exit(if group.rank().get() == 0 { 5 } else { 0 });
        }
        println!("{} works", group.backend_name().unwrap());
    });
    let Some(run) = launch(&["-n", "2", "--max-restarts", "1"], &program) else { return };
    let run = run.finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(works(&run.stdout), ["[0] mpi works", "[1] mpi works"], "{run:?}");
}

#[test]
fn those_who_are_left_when_one_dies_go_on_if_the_launcher_lets_them() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        if group.rank().get() == 1 {
            kill_this_process();
        }
        let error = group.all_reduce(&mut [1_u8; 9], ReduceOp::Max).unwrap_err();
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error:?}");
        let rest = group.shrink().unwrap();
        work(&rest);
        println!("{} works", rest.backend_name().unwrap());
    });
    let Some(run) = launch(&["-n", "3", "--tolerate", "1"], &program) else { return };
    let run = run.finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(works(&run.stdout), ["[0] shm works", "[2] shm works"], "{run:?}");
}

#[test]
fn a_program_that_says_something_else_than_mpi_does_is_not_answered() {
    let script =
        "echo hello >&$PMI_FD; if read answer <&$PMI_FD; then echo $answer; else echo silence; fi";
    let Some(mut command) = command() else { return };
    command.args(["--backend", "mpi", "-n", "2", "--", "bash", "-c", script]);
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(sorted_lines(&run.stdout), ["[0] silence", "[1] silence"], "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_rank_that_calls_mpi_abort_fails_and_ends_the_job() {
    let Some(run) = talk(&["-n", "2"], ABORTS) else { return };
    assert_eq!(run.code, 42, "{run:?}");
    assert!(run.stderr.contains("rank 1 failed: it called MPI_Abort with code 42"), "{run:?}");
    assert!(!run.stdout.contains("went on"), "{run:?}");
}

#[test]
fn a_job_that_mpi_abort_has_ended_is_started_again() {
    let Some(run) = talk(&["-n", "2", "--max-restarts", "1"], ABORTS) else { return };
    assert_eq!(run.code, 42, "{run:?}");
    let again = "rank 1 failed: it called MPI_Abort with code 42; starting again (1 of 1)";
    assert!(run.stderr.contains(again), "{run:?}");
}

#[test]
fn a_rank_that_leaves_mpi_without_ending_it_has_failed() {
    let script = r#"mpi.MPI_Init(None, None)
if rank == 1: os._exit(0)
mpi.MPI_Finalize()"#;
    let Some(run) = talk(&["-n", "2"], script) else { return };
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("rank 1 failed: it left MPI without MPI_Finalize"), "{run:?}");
}

#[test]
fn who_waits_for_one_that_says_nothing_more_to_the_launcher_is_told_for_whom() {
    // One that lives on has closed the socket, or has finalized; one that has ended was in the barrier itself.
    for (last, waits) in [
        ("talk.shutdown(2); time.sleep(2)", true),
        ("talk.sendall(b'cmd=finalize\\n'); time.sleep(2)", true),
        (
            "talk.sendall(b'cmd=barrier_in\\n'); talk.shutdown(2); time.sleep(0.5); os._exit(0)",
            false,
        ),
    ] {
        let script = format!(
            "import socket\ntalk = socket.socket(fileno=int(os.environ['PMI_FD']))\n\
             if rank == 1: {last}\nelif {}: talk.sendall(b'cmd=barrier_in\\n'); talk.recv(99)\n",
            if waits { "True" } else { "time.sleep(1)" }
        );
        let Some(run) = talk(&["-n", "2"], &script) else { return };
        let told = "rank 0 waits in MPI for rank 1, which has ended, or says nothing more";
        assert_eq!(run.stderr.contains(told), waits, "{last}: {run:?}");
        assert!(!run.stderr.contains("rank 1 waits"), "{last}: {run:?}");
    }
}

#[test]
fn a_rank_that_leaves_its_group_and_fails_is_the_one_that_has_failed() {
    let program = program(|| {
        let group = consort::init().unwrap();
        work(&group);
        if group.rank().get() == 1 {
            drop(group);
            process::exit(5);
        }
        let error = group.barrier().unwrap_err();
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error:?}");
        thread::sleep(Duration::from_secs(1));
        process::exit(6);
    });
    let Some(run) = launch(&["-n", "3"], &program) else { return };
    let run = run.finish_cleanly();
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("rank 1 failed: exit code 5"), "{run:?}");
}

#[test]
fn ranks_that_go_on_in_another_group_and_do_their_work_have_not_failed() {
    let program = program(|| {
        let group = consort::init().unwrap();
        let me = group.rank().get();
        if me == 1 {
            group.abort("it wants to begin anew");
        }
        let error = group.barrier().unwrap_err();
        assert!(matches!(error, Error::Aborted { .. }), "{error:?}");
        let again = group.shrink().unwrap();
        drop(group);
        work(&again);
        drop(again);
        thread::sleep(Duration::from_millis(u64::from(me) * 300));
        println!("it works");
    });
    let Some(run) = launch(&["-n", "3"], &program) else { return };
    let run = run.finish_cleanly();
    assert_eq!(works(&run.stdout), [0, 1, 2].map(|rank| format!("[{rank}] it works")), "{run:?}");
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn ranks_that_wait_for_one_that_never_begins_are_ended() {
    let script = r#"if rank == 1: os._exit(0)
mpi.MPI_Init(None, None)"#;
    for options in [&["-n", "2"][..], &["-n", "3", "--tolerate", "1"]] {
        let Some(run) = talk(options, script) else { return };
        assert_ne!(run.code, 0, "{run:?}");
        let why = "it was in MPI_Init, and rank 1 had ended before it came there";
        assert!(run.stderr.contains(why), "{run:?}");
    }
}

#[test]
fn ranks_of_two_hosts_are_one_world_to_mpi() {
    let program = program(|| {
        let group = consort::init().unwrap();
        assert_eq!((group.world(), group.local_world()), (4, 2));
        work(&group);
        println!("{} works", group.backend_name().unwrap());
    });
    let Some(mpi) = Mpi::find().map_err(skip).ok() else { return };
    let Some(cluster) = Cluster::new(2) else { return };
    let runs = [0, 1].map(|host| {
        let mut command = cluster.command(host);
        command.args(["--rdzv", &cluster.meeting()]).arg("--secret-file").arg(cluster.secret());
        command.args(["--nnodes", "2", "-n", "2", "--backend", "mpi", "--"]).args(&program);
        command.env("FI_PROVIDER", "tcp");
        Launch::command(with(&mpi, command))
    });
    let mut lines = String::new();
    for run in runs.map(Launch::finish_cleanly) {
        assert_eq!(run.code, 0, "{run:?}");
        lines += &run.stdout;
    }
    assert_eq!(works(&lines), [0, 1, 2, 3].map(|rank| format!("[{rank}] mpi works")));
}

/// Calls of several kinds, in the group and in a part of it.
fn work(group: &Group) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    for count in [1, 3, 50_001] {
        let mut sums: Vec<f32> = (0..count).map(|at| (at % 89) as f32 + me as f32).collect();
        group.all_reduce(&mut sums, ReduceOp::Sum).unwrap();
        let ranks = (world * (world - 1) / 2) as f32;
        assert!((0..count).all(|at| sums[at] == world as f32 * (at % 89) as f32 + ranks));
    }
    let mut passed = [0; 700];
    let (to, from) = ((me + 1) % world, (me + world - 1) % world);
    group.send_recv(&[me; 700], to, &mut passed, from, 4).unwrap();
    assert_eq!(passed, [from; 700]);
    let part = group.split(Some(me % 2), 0).unwrap().unwrap();
    let mut ones = [1_u16; 3];
    part.all_reduce(&mut ones, ReduceOp::Sum).unwrap();
    assert_eq!(ones, [part.world() as u16; 3]);
}

fn kill_this_process() {
    let me = process::id().to_string();
    Command::new("kill").args(["-9", &me]).status().unwrap();
}

/// The memory that MPI shares among the ranks of this host.
fn memory_of_mpi() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().find_map(|line| Some(line.split_at(line.find("/dev/shm/mpich_shm")?).1));
    path.unwrap_or("none").to_owned()
}

/// What ranks have said that works, in the order of ranks.
fn works(stdout: &str) -> Vec<&str> {
    let mut lines = sorted_lines(stdout);
    lines.retain(|line| line.ends_with(" works"));
    lines
}

/// Starts ranks that are to use MPI; `None`, and said so, where there is none.
fn launch(options: &[&str], program: &[String]) -> Option<Launch> {
    let mut command = command()?;
    command.args(["--backend", "mpi"]).args(options).arg("--").args(program);
    Some(Launch::command(command))
}

/// What became of ranks that are this script, which has MPI's functions in `mpi` and its number in `rank`.
fn talk(options: &[&str], script: &str) -> Option<Finished> {
    let start = "import ctypes, os, time\nmpi = ctypes.CDLL(os.environ['CONSORT_MPI_LIBRARY'])\n\
                 rank = int(os.environ['PMI_RANK'])\n";
    let program = ["python3", "-c", &format!("{start}{script}")].map(str::to_owned);
    Some(launch(options, &program)?.finish_cleanly())
}

/// `consort run`, as yet without options.
fn command() -> Option<Command> {
    let mpi = Mpi::find().map_err(skip).ok()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.arg("run");
    Some(with(&mpi, command))
}

/// The same with MPI where it is. Ranks give their core away when they wait: there may be more of them than cores.
/// Between hosts it has libfabric: UCX leaves named memory behind if it is killed while it begins.
fn with(mpi: &Mpi, mut command: Command) -> Command {
    command.env("CONSORT_MPI_LIBRARY", mpi.library()).env("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1");
    command.env("MPICH_CH4_NETMOD", "ofi");
    command
}

/// MPI_COMM_WORLD is 257 in MPI's own binary interface.
const ABORTS: &str = r#"mpi.MPI_Init(None, None)
if rank == 1:
    mpi.MPI_Abort(ctypes.c_void_p(257), 42)
    time.sleep(1)
    print('went on', flush=True)
mpi.MPI_Finalize()"#;
