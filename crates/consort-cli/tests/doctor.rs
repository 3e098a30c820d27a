//! `consort doctor` as its users meet it: the real program on the real machine.

use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};

use consort::device::Driver;
use consort_store::{Secret, Server};
use consort_testkit::{Mpi, skip};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

#[test]
fn every_line_of_json_has_the_fields_and_the_exit_code_agrees() {
    let output = doctor(&["--json"]).output().unwrap();
    let lines = parse(&output);
    for line in &lines {
        let line = line.as_object().unwrap();
        assert!(line["area"].is_string() && line["what"].is_string(), "{line:?}");
        assert!(
            ["good", "note", "warning", "bad"].contains(&line["verdict"].as_str().unwrap()),
            "{line:?}"
        );
        assert!(line["todo"].is_string() || line["todo"].is_null(), "{line:?}");
        let is_good = line["verdict"] == "good";
        assert!(line["todo"].is_null() == is_good || line["area"] == "summary", "{line:?}");
    }
    let bad = lines.iter().any(|line| line["verdict"] == "bad");
    assert_eq!(output.status.code(), Some(i32::from(bad)));
    assert_eq!(lines.last().unwrap()["area"], "summary");
    for area in [
        "system",
        "cores",
        "memory",
        "limits",
        "network",
        "clock",
        "files",
        "variables",
        "python",
        "engines",
    ] {
        assert!(lines.iter().any(|line| line["area"] == area), "nothing about {area}");
    }
}

#[test]
fn the_text_fits_on_a_screen_and_into_a_file() {
    let output = doctor(&[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 50, "{text}");
    assert!(!text.contains('\x1b'), "no colours in a file: {text}");
    assert!(text.lines().last().unwrap().contains("good"), "{text}");
}

#[test]
fn colours_come_on_a_terminal_unless_refused() {
    let coloured = on_terminal(doctor(&[]).env("TERM", "xterm"));
    assert!(coloured.contains("\x1b[32mgood"), "{coloured}");
    let plain = on_terminal(doctor(&[]).env("TERM", "xterm").env("NO_COLOR", "1"));
    assert!(plain.contains("good") && !plain.contains('\x1b'), "{plain}");
}

#[test]
fn a_port_that_nobody_has_is_bad_and_says_what_to_start() {
    let address = free_address();
    let url = format!("tcp://{address}");
    let output = doctor(&["--json", "--rdzv", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = find(&output, "meeting", 0);
    assert_eq!(line["verdict"], "bad");
    assert!(line["what"].as_str().unwrap().contains(&address.to_string()), "{line}");
    assert!(line["todo"].as_str().unwrap().contains("consort run --rdzv"), "{line}");
}

#[test]
fn a_meeting_place_with_the_same_secret_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret_file(&folder.path().join("secret"));
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), &secret).unwrap();
    let url = format!("tcp://{}", server.address());
    let file = folder.path().join("secret");

    let output =
        doctor(&["--json", "--rdzv", &url, "--secret-file", file.to_str().unwrap()]).output();
    let output = output.unwrap();
    let what = |index| find(&output, "meeting", index)["what"].as_str().unwrap().to_owned();
    assert!(what(0).contains("takes connections"), "{}", what(0));
    assert!(what(1).contains("round trip"), "{}", what(1));
    assert!(what(2).contains("/s there"), "{}", what(2));
    assert!(find(&output, "network", 1)["what"].as_str().unwrap().contains("routes to 127.0.0.1"));
}

#[test]
fn a_meeting_place_with_another_secret_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours");
    secret_file(&ours);
    let theirs = Secret::generate().unwrap();
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), &theirs).unwrap();
    let url = format!("tcp://{}", server.address());

    let mut command = doctor(&["--json", "--rdzv", &url]);
    let output = command.env("CONSORT_SECRET_FILE", &ours).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = find(&output, "meeting", 1);
    assert_eq!(line["verdict"], "bad");
    assert!(line["what"].as_str().unwrap().contains("secrets differ"), "{line}");
}

#[test]
fn an_mpi_that_can_be_used_is_good_and_says_its_version() {
    let mpi = match Mpi::find() {
        Ok(mpi) => mpi,
        Err(reason) => return skip(reason),
    };
    let output = doctor(&["--json"]).env("CONSORT_MPI_LIBRARY", mpi.library()).output().unwrap();
    let line = find(&output, "engines", 0);
    assert_eq!(line["verdict"], "good", "{line}");
    let what = line["what"].as_str().unwrap();
    assert!(what.starts_with("MPI: MPICH Version: 5."), "{line}");
    assert!(what.ends_with(mpi.library().to_str().unwrap()), "{line}");
}

#[test]
fn an_nccl_with_devices_is_good_and_says_how_many() {
    let library = std::env::current_exe().unwrap().with_file_name("libconsort_nccl.so");
    if !library.exists() {
        return skip("libconsort_nccl.so was not built: `cargo build -p consort-nccl`");
    }
    let mut command = doctor(&["--json"]);
    command.env("CONSORT_NCCL_LIBRARY", &library).env("CONSORT_CUDA_LIBRARY", &library);
    let line = find(&command.output().unwrap(), "engines", 1);
    assert_eq!(line["verdict"], "good", "{line}");
    let what = line["what"].as_str().unwrap();
    let parts = ["NCCL 2.", library.to_str().unwrap(), " devices, the first is "];
    assert!(parts.iter().all(|part| what.contains(part)), "{line}");
}

#[test]
fn an_nccl_without_a_driver_is_told_that_the_driver_is_missing() {
    let library = std::env::current_exe().unwrap().with_file_name("libconsort_nccl.so");
    if !library.exists() {
        return skip("libconsort_nccl.so was not built: `cargo build -p consort-nccl`");
    }
    let mut command = doctor(&["--json"]);
    command.env("CONSORT_NCCL_LIBRARY", &library).env("CONSORT_BACKEND", "nccl");
    let mut told = |driver: &str| {
        let output = command.env("CONSORT_CUDA_LIBRARY", driver).output().unwrap();
        let line = find(&output, "engines", 1);
        assert_eq!(
            (&line["verdict"], output.status.code()),
            (&Value::from("bad"), Some(1)),
            "{line}"
        );
        [&line["what"], &line["todo"]].map(|it| it.as_str().unwrap().to_owned())
    };
    let [what, todo] = told("/nowhere");
    assert!(what.contains("the CUDA driver that is named cannot be loaded"), "{what}");
    assert!(what.contains("/nowhere"), "{what}");
    assert!(todo.contains("correct CONSORT_CUDA_LIBRARY, or unset it"), "{todo}");
    // A host that has a driver has devices, too.
    if Driver::open(Path::new("libcuda.so.1")).is_err() {
        let [what, todo] = told("");
        assert!(what.contains("but there is no CUDA driver"), "{what}");
        assert!(todo.contains("name the same library in CONSORT_CUDA_LIBRARY, too"), "{todo}");
    }
}

#[test]
fn an_nccl_that_lacks_what_every_group_needs_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("part.c"), folder.path().join("libpart.so"));
    std::fs::write(&source, "int ncclGetVersion(int *it) { *it = 23007; return 0; }").unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    match built {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(_) => return skip("there is no C compiler"),
    }
    let output = doctor(&["--json"]).env("CONSORT_NCCL_LIBRARY", &library).output().unwrap();
    let line = find(&output, "engines", 1);
    assert_eq!((&line["verdict"], output.status.code()), (&Value::from("bad"), Some(1)), "{line}");
    assert!(line["what"].as_str().unwrap().contains("it has no ncclGetUniqueId"), "{line}");
}

#[test]
fn an_engine_that_is_asked_for_and_cannot_be_used_is_bad_and_says_why() {
    let wrong = env!("CARGO_BIN_EXE_consort");
    for (name, at) in [("CONSORT_MPI_LIBRARY", 0), ("CONSORT_NCCL_LIBRARY", 1)] {
        let output = doctor(&["--json"]).env(name, wrong).output().unwrap();
        let line = find(&output, "engines", at);
        assert_eq!(
            (&line["verdict"], output.status.code()),
            (&Value::from("bad"), Some(1)),
            "{line}"
        );
        assert!(
            line["todo"].as_str().unwrap().starts_with(&format!("{name}={wrong} is set: ")),
            "{line}"
        );
    }
    for (engine, at) in [("mpi", 0), ("nccl", 1)] {
        let mut command = doctor(&["--json"]);
        command.env("CONSORT_MPI_LIBRARY", "/nowhere").env("CONSORT_NCCL_LIBRARY", "/nowhere");
        let line = find(&command.env("CONSORT_BACKEND", engine).output().unwrap(), "engines", at);
        assert_eq!(line["verdict"], "bad", "{line}");
        assert!(line["what"].as_str().unwrap().contains("/nowhere"), "{line}");
    }
}

#[test]
fn variables_are_listed_and_only_those_that_are_good_called_so() {
    let listed = |name: &str, value: &str| {
        let output = doctor(&["--json"]).env(name, value).output().unwrap();
        let line = find(&output, "variables", 0);
        assert_eq!(line["what"], format!("every job here has {name}={value}"), "{line}");
        line["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(listed("CONSORT_MPI_LIBRARY", ""), "good");
    for (name, value) in [
        ("CONSORT_MPI_LIBRARY", "/nowhere"),
        ("CONSORT_CUDA_LIBRARY", "/nowhere"),
        ("CONSORT_INTERFACE", "nosuch0"),
        ("CONSORT_SECRET_FILE", "/nowhere"),
    ] {
        assert_eq!(listed(name, value), "note", "{name}");
    }
}

#[test]
fn a_folder_is_tested_without_leaving_anything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("meet").display());
    let output = doctor(&["--json", "--rdzv", &url]).output().unwrap();
    assert_eq!(find(&output, "meeting", 0)["verdict"], "note");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_pinned_process_is_told_how_many_ranks_have_room() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
    let pinned = std::thread::spawn(move || {
        let mut one = rustix::thread::CpuSet::new();
        one.set(cpu);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        doctor(&["--json"]).output().unwrap()
    });
    let line = find(&pinned.join().unwrap(), "cores", 0);
    assert!(line["what"].as_str().unwrap().contains("up to 1 rank without"), "{line}");
    assert_eq!(line["verdict"], "warning");
}

#[test]
fn too_few_open_files_are_bad() {
    let program = env!("CARGO_BIN_EXE_consort");
    let output = clean(Command::new("sh"))
        .args(["-c", "ulimit -n 34; exec \"$0\" doctor --json", program])
        .output()
        .unwrap();
    let line = find(&output, "limits", 0);
    assert_eq!(line["verdict"], "bad", "{line}");
    assert!(line["todo"].is_string(), "{line}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn ranks_may_read_each_others_memory_or_it_is_told_what_forbids_it() {
    let line = find(&doctor(&["--json"]).output().unwrap(), "memory", 3);
    let what = line["what"].as_str().unwrap();
    match line["verdict"].as_str() {
        Some("good") => assert!(what.contains("may read each other's memory"), "{line}"),
        Some("note") => assert!(what.contains("may not read each other's memory"), "{line}"),
        _ => panic!("{line}"),
    }
}

#[test]
fn what_another_launcher_left_behind_is_a_warning() {
    let output = doctor(&["--json"]).env("RANK", "3").env("WORLD_SIZE", "8").output().unwrap();
    let line = find(&output, "variables", 1);
    assert_eq!(line["verdict"], "warning");
    assert_eq!(line["todo"], "unset RANK WORLD_SIZE");
}

#[test]
fn an_interface_that_is_not_there_is_bad() {
    let output = doctor(&["--json"]).env("CONSORT_INTERFACE", "nosuch0").output().unwrap();
    let line = find(&output, "network", 1);
    assert_eq!((&line["verdict"], output.status.code()), (&Value::from("bad"), Some(1)));
    assert!(line["what"].as_str().unwrap().contains("nosuch0"), "{line}");
}

#[test]
fn a_device_is_no_place_to_meet() {
    let output = doctor(&["--json", "--rdzv", "file:///dev/null"]).output().unwrap();
    let line = find(&output, "meeting", 0);
    assert_eq!((&line["verdict"], output.status.code()), (&Value::from("bad"), Some(1)), "{line}");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    for arguments in [&[][..], &["--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = doctor(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write the report: No space left"), "{said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let code = |mut command: Command| command.output().unwrap().status.code();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = doctor(&[]);
    unread.stdout(writer);
    assert_eq!(code(unread), code(doctor(&[])));
}

#[test]
fn the_help_teaches() {
    let output = doctor(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["--rdzv", "--secret-file", "--json", "Examples:", "note", "warning", "Exit code"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}

#[test]
fn wrong_usage_is_exit_code_two() {
    for arguments in [["--rdzv", "host0"], ["--rdzv", "tcp://host0"], ["--jsno", "x"]] {
        let output = doctor(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

fn doctor(arguments: &[&str]) -> Command {
    let mut command = clean(Command::new(env!("CARGO_BIN_EXE_consort")));
    command.arg("doctor").args(arguments);
    command
}

/// Without what this test's own surroundings have set.
fn clean(mut command: Command) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path);
    command
}

fn parse(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("the output is text");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

fn find(output: &Output, area: &str, index: usize) -> Value {
    let mut lines = parse(output).into_iter().filter(|line| line["area"] == area);
    lines.nth(index).unwrap_or_else(|| panic!("no line {index} about {area} in {output:?}"))
}

fn secret_file(path: &Path) -> Secret {
    let secret = Secret::generate().expect("a new secret");
    secret.write_new(path).expect("a new file");
    secret
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("it is bound")
}

/// What a command shows on a terminal.
fn on_terminal(command: &mut Command) -> String {
    let mut near = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    grantpt(&near).expect("ours to use");
    unlockpt(&near).expect("ours to open");
    let name = ptsname(&near, Vec::new()).expect("it has a name");
    let far = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("the far end");
    let mut child = command.stdout(far).spawn().expect("the program starts");
    // The command keeps its copy of the far end, which would keep the near one waiting.
    command.stdout(std::process::Stdio::null());

    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    // When the last far end is closed, reading fails.
    while let Ok(count @ 1..) = near.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    child.wait().expect("the program ends");
    String::from_utf8(shown).expect("the output is text")
}
