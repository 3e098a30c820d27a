//! What the documentation has people copy.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use consort_testkit::skip;

#[test]
fn scripts_for_clusters_can_be_read_by_a_shell() {
    let scripts = blocks("bash");
    assert!(scripts.len() >= 3, "{scripts:?}");
    for script in scripts {
        let said = fed("bash", &["-n"], &script).expect("there is a shell");
        assert_eq!(said, (true, String::new()), "{script}");
    }
}

#[test]
fn scripts_tell_srun_of_the_cores_that_it_does_not_take_from_sbatch() {
    let with_cores: Vec<String> = blocks("bash")
        .into_iter()
        .filter(|script| script.contains("#SBATCH --cpus-per-task"))
        .collect();
    assert!(with_cores.len() >= 2, "{with_cores:?}");
    for script in with_cores {
        assert!(script.contains("srun --cpus-per-task=\"$SLURM_CPUS_PER_TASK\""), "{script}");
    }
}

#[test]
fn the_program_that_goes_from_laptop_to_cluster_is_the_example() {
    let programs = blocks("rust");
    let [program] = &programs[..] else { panic!("{programs:?}") };
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = path.join("../consort-train/examples/digits.rs");
    let example = std::fs::read_to_string(example).unwrap();
    let mut lines = example.lines();
    for shown in program.lines().filter(|line| line.trim() != "// …") {
        assert!(lines.any(|line| line == shown), "not in the example, or not there: {shown}");
    }
}

#[test]
fn the_manifest_for_kubernetes_is_a_service_and_a_job() {
    let manifests = blocks("yaml");
    let [manifest] = &manifests[..] else { panic!("{manifests:?}") };
    let read = "import sys, yaml\n\
                for it in yaml.safe_load_all(sys.stdin): print(it['apiVersion'], it['kind'], it['metadata']['name'])";
    match fed("python3", &["-c", read], manifest) {
        Some((true, said)) => assert_eq!(said, "v1 Service train\nbatch/v1 Job train\n"),
        Some((false, why)) if why.contains("No module named") => skip("Python has no yaml"),
        Some((false, why)) => panic!("{why}"),
        None => skip("there is no python3"),
    }
}

/// The parts of docs/cluster.md in this language.
fn blocks(language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = format!("```{language}\n");
    let parts = text.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or(part).to_owned()).collect()
}

/// Whether a program is content with this input, and what it says of it. `None` if there is no such program.
fn fed(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().ok()?;
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Some((output.status.success(), String::from_utf8(said).unwrap()))
}
