//! The examples of the libraries, as their first lines say to run them.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use consort_testkit::{Mpi, skip};

use super::launch::{Finished, Launch};

#[test]
fn the_first_program_says_hello() {
    let run = run("consort", "hello", 3);
    for rank in 0..3 {
        for line in [
            format!("[{rank}] rank {rank} of 3: {rank} of 3 on "),
            format!("[0] rank {rank} left: hello from process "),
        ] {
            assert!(run.stdout.contains(&line), "{line} in {run:?}");
        }
    }
}

#[test]
fn the_first_program_that_computes_gives_every_rank_the_same() {
    let run = run("consort", "first", 3);
    for rank in 0..3 {
        let line = format!("[{rank}] rank {rank} of 3: average [1.0, 10.0], seed [42], 2 others");
        assert!(run.stdout.contains(&line), "{line} in {run:?}");
    }
}

#[test]
fn the_program_that_computes_meanwhile_gets_what_others_sent() {
    let run = run("consort", "asynchronous", 3);
    for (rank, previous) in [(0, 2), (1, 0), (2, 1)] {
        let line = format!(
            "[{rank}] rank {rank}: average 1, series 1.645, weight 1, 30 samples, rank {previous} \
             wrote"
        );
        assert!(run.stdout.contains(&line), "{line} in {run:?}");
    }
}

#[test]
fn the_program_with_symmetric_memory_finds_what_others_put_there() {
    let run = run("consort", "symmetric", 3);
    for rank in 0..3 {
        let found = "gathered [0, 10, 20], sums [0, 30, 60], highest 2";
        let line = format!("[{rank}] rank {rank}: {found}");
        assert!(run.stdout.contains(&line), "{line} in {run:?}");
    }
}

#[test]
fn the_program_with_numbers_on_devices_says_which_nccl_adds_them_up() {
    let library = env::current_exe().unwrap().with_file_name("libconsort_nccl.so");
    if !library.exists() {
        return skip("libconsort_nccl.so was not built: `cargo build -p consort-nccl`");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.env("CONSORT_NCCL_LIBRARY", &library).env("CONSORT_CUDA_LIBRARY", &library);
    command.args(["run", "--backend", "nccl", "-n", "3", "--", &example("consort", "devices")]);
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    for rank in 0..3 {
        let right = format!("[{rank}] rank {rank} of 3: sums are right, on device {rank}, ");
        let line = run.stdout.lines().find(|line| line.starts_with(&right));
        assert!(line.is_some_and(|line| line.contains("by NCCL 2.")), "{run:?}");
        assert!(line.unwrap().contains(" of consort-nccl "), "{run:?}");
    }
}

#[test]
fn the_program_with_numbers_on_devices_says_what_there_has_to_be() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.env("CONSORT_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
    command.args(["run", "-n", "2", "--", &example("consort", "devices")]);
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.code, 1, "{run:?}");
    let said = "the CUDA driver that is named cannot be loaded (/nowhere/libcuda.so.1: cannot open";
    assert!(run.stderr.contains(said), "{run:?}");
}

#[test]
fn a_transformer_in_parts_learns_what_a_whole_one_learns() {
    for ranks in [1, 2, 4] {
        let run = run("consort-train", "tensor_parallel", ranks);
        assert_learns_as_one_process(&run);
        let share = if ranks == 1 { "1 ranks have 37248 of 37248" } else { "ranks have" };
        assert!(run.stdout.contains(share), "{run:?}");
    }
}

#[test]
fn a_transformer_is_tried_out_for_a_thousand_ranks_on_one() {
    let tried = Command::new(example("consort-train", "tensor_parallel"))
        .args(["--dry-run", "1024"])
        .output()
        .unwrap();
    let told = String::from_utf8(tried.stdout).unwrap();
    assert!(tried.status.success(), "{told}");
    // Four blocks with two sums each way, of 24 positions of 2048 numbers; and the gradients of what all
    // have: a bias in each block, and six positions.
    let (sums, bytes) = (2 * 4 * 2, 24 * 2048 * 4);
    let (biases, bias) = (4, 2048 * 4);
    let positions = 6 * 2048 * 4;
    let (calls, all) = (sums + biases + 1, sums * bytes + biases * bias + positions);
    let row: Vec<&str> =
        told.lines().find(|line| line.contains("all_reduce")).unwrap().split_whitespace().collect();
    // A ring sends all parts but one, twice.
    let sent = 2 * (all / 1024 * 1023);
    assert_eq!(
        row[3..],
        ["all_reduce", &calls.to_string(), &all.to_string(), &sent.to_string()],
        "{told}"
    );
}

#[test]
fn a_transformer_is_not_tried_out_for_what_is_no_number() {
    let tried = Command::new(example("consort-train", "tensor_parallel"))
        .args(["--dry-run", "abc"])
        .output()
        .unwrap();
    assert_eq!(tried.status.code(), Some(2), "{tried:?}");
    assert!(tried.stderr.starts_with(b"usage: tensor_parallel "), "{tried:?}");
}

#[test]
fn fully_sharded_training_hides_its_communication() {
    let meanwhile = run("consort-train", "fully_sharded", 2);
    let blocking = run_with("consort-train", "fully_sharded", 2, &["--blocking"]);
    assert_learns_as_one_process(&meanwhile);
    assert_learns_as_one_process(&blocking);
    assert!(share_hidden(&meanwhile, "gathering weights") > 0.0, "{meanwhile:?}");
    let [meanwhile, waited] =
        [&meanwhile, &blocking].map(|run| share_hidden(run, "adding up gradients"));
    // Who waits computes when the call has ended, so that is nothing, however busy the machine is. The
    // recorder's clock and the program's may differ by a bit.
    assert!(waited < 0.01, "{blocking:?}");
    assert!(meanwhile > waited, "{meanwhile} is not more than {waited}");
}

#[test]
fn data_parallel_training_learns_by_mpi() {
    let Some(told) = run_by_mpi("digits", 2) else { return };
    let by = "2 ranks, 2 on this host; tensors on Cpu; calls by mpi";
    assert_eq!(told.lines().next(), Some(by), "{told}");
    let last = told.lines().last().unwrap_or_default();
    let percent: f64 = last.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{told}"));
    assert!(last.ends_with("are read rightly") && percent > 90.0, "{told}");
}

#[test]
fn a_transformer_in_parts_learns_by_mpi_what_a_whole_one_learns() {
    let Some(told) = run_by_mpi("tensor_parallel", 2) else { return };
    assert_losses_of_one_process(&told);
}

/// Has MPI's launcher run an example on so many ranks, whose data MPI carries. `None` if there is no MPI.
fn run_by_mpi(name: &str, ranks: u32) -> Option<String> {
    let mpi = Mpi::find().map_err(skip).ok()?;
    let program = example("consort-train", name);
    let ended = mpi.command(ranks, [program]).env("CONSORT_BACKEND", "mpi").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    Some(String::from_utf8(ended.stdout).unwrap())
}

/// How much of the time of some calls was hidden behind computation, in an example that says so.
fn share_hidden(run: &Finished, what: &str) -> f64 {
    let line = run.stdout.lines().find(|line| line.ends_with(what));
    let line = line.unwrap_or_else(|| panic!("{what} in {run:?}"));
    // … while other layers computed: 3.9 of 13.0 ms of …
    let figures: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [hidden, all] = figures[..] else { panic!("{line}") };
    assert!(0.0 <= hidden && hidden <= all && all > 0.0, "{line}");
    hidden / all
}

#[test]
fn three_ways_of_parting_go_together() {
    for ranks in [4, 8] {
        let run = run("consort-train", "hybrid", ranks);
        assert_learns_as_one_process(&run);
        let share = format!("{ranks} ranks have 768 of 3072 weights each");
        assert!(run.stdout.contains("shards │  0   1") && run.stdout.contains(&share), "{run:?}");
    }
}

/// Losses become smaller, and are those of one process.
fn assert_learns_as_one_process(run: &Finished) {
    assert_losses_of_one_process(&run.stdout);
}

/// The same of what an example has told.
fn assert_losses_of_one_process(told: &str) {
    let losses = |after: &str| -> Vec<f64> {
        let all = told.lines().filter_map(|line| line.split_once(after));
        all.map(|(_, rest)| rest.split([',', ' ']).next().unwrap().parse().unwrap()).collect()
    };
    let (together, alone) = (losses(": loss "), losses("in one process "));
    assert!(together.len() >= 4 && together.len() == alone.len(), "{told}");
    assert!(together.last() < together.first(), "{told}");
    assert!(together.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-4), "{told}");
}

/// Runs an example on so many ranks, to a good end.
fn run(package: &str, name: &str, ranks: usize) -> Finished {
    run_with(package, name, ranks, &[])
}

fn run_with(package: &str, name: &str, ranks: usize, arguments: &[&str]) -> Finished {
    let (program, ranks) = (example(package, name), ranks.to_string());
    let run = Launch::new([&["-n", &ranks, "--", &program], arguments].concat()).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    run
}

/// The path of an example. It is built with all tests, but not with these alone.
fn example(package: &str, name: &str) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = crates.join(package).join("examples").join(name).with_extension("rs");
    // This test is TARGET/PROFILE/deps/run-HASH.
    let this = env::current_exe().unwrap();
    let program = this.ancestors().nth(2).unwrap().join("examples").join(name);
    let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    if changed(&program) < changed(&source) {
        let mut build = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        build.args(["build", "--locked", "--package", package, "--example", name]);
        if package == "consort-train" {
            build.args(["--features", "candle"]);
        }
        build.arg("--target-dir").arg(this.ancestors().nth(3).unwrap());
        assert!(build.status().unwrap().success(), "{build:?}");
    }
    program.into_os_string().into_string().unwrap()
}
