//! Programs in C, C++ and Python.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use consort_testkit::skip;

use crate::compiled::{built, compile, here, words};

#[test]
fn a_program_in_c_gets_right_results() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &example("c/collectives.c")) else { return };
    for world in [1, 4] {
        let id = folder.path().join(format!("id-{world}"));
        succeed(ranks_of(&program, &[id.as_os_str()], world));
    }
}

#[test]
fn a_program_in_c_can_make_calls_until_its_very_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/late.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_child_that_a_program_in_c_forks_uses_nothing_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/forked.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_child_that_is_forked_while_others_make_calls_waits_for_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/crowded.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_child_that_is_a_rank_beside_its_parent_reaches_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/family.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn ranks_of_a_program_in_c_that_lack_threads_hear_so_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/scarce.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_program_in_c_runs_under_the_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &example("c/collectives.c")) else { return };
    launch(&program, &folder.path().join("id"), 4);
}

#[test]
fn a_program_in_cpp_runs_under_the_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/c/sums.cpp")) else { return };
    launch(&program, &folder.path().join("id"), 2);
}

#[test]
fn a_program_in_c_does_not_touch_what_is_not_its_own() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("valgrind is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &example("c/collectives.c")) else { return };
    for world in [1, 2] {
        let id = folder.path().join(format!("id-{world}"));
        // What was never written is not looked at: the encryption's assembly is beyond it.
        let options = [
            "--quiet",
            "--error-exitcode=99",
            "--undef-value-errors=no",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
            "--fair-sched=yes",
        ];
        let program = [program.as_os_str(), id.as_os_str()];
        let arguments: Vec<&OsStr> = options.iter().map(OsStr::new).chain(program).collect();
        succeed(ranks_of(Path::new("valgrind"), &arguments, world));
    }
}

#[test]
fn a_program_in_python_gets_right_results() {
    if Command::new("python3").arg("-c").arg("import ctypes").status().is_err() {
        return skip("there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let (script, library) = (example("python/collectives.py"), built("libconsort_nccl.so"));
    let id = folder.path().join("id");
    let arguments = [script.as_os_str(), library.as_os_str(), id.as_os_str()];
    succeed(ranks_of(Path::new("python3"), &arguments, 2));
}

/// As many processes, each of which is told its rank.
fn ranks_of(program: &Path, arguments: &[&OsStr], world: u32) -> Vec<Child> {
    let start = |rank: u32| {
        let mut command = Command::new(program);
        command.args(arguments).env("RANK", rank.to_string()).env("WORLD_SIZE", world.to_string());
        command.env("CONSORT_TIMEOUT", "60s").env("LD_LIBRARY_PATH", built(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started")
    };
    (0..world).map(start).collect()
}

/// The same by `consort run`.
fn launch(program: &Path, id: &Path, world: u32) {
    let launcher = built("../consort");
    if !launcher.exists() {
        return skip("`consort` was not built: `cargo build -p consort-cli`");
    }
    let mut run = Command::new(launcher);
    run.args(["run", "-n", &world.to_string(), "--"]).arg(program).arg(id);
    let output = run.env("LD_LIBRARY_PATH", built("")).output().expect("it can be started");
    assert!(output.status.success(), "{}", words(&output));
    for rank in 0..world {
        let right = format!("rank {rank} of {world}: all results are right");
        assert!(words(&output).contains(&right), "{}", words(&output));
    }
}

fn succeed(ranks: Vec<Child>) {
    let outputs: Vec<Output> =
        ranks.into_iter().map(|rank| rank.wait_with_output().expect("it ends")).collect();
    let all: String = outputs.iter().map(words).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{all}");
    assert_eq!(all.matches("all results are right").count(), outputs.len(), "{all}");
}

fn example(name: &str) -> PathBuf {
    here("../../examples").join(name)
}
