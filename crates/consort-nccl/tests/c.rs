//! The library as programs of other languages have it: by its headers and its shared object.

use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use consort_nccl::{Config, SimInfo, Team, UniqueId, WaitSignalDesc};
use consort_sys::dl::Library;
use consort_testkit::skip;

#[test]
fn a_program_in_c_gets_right_results() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &example("collectives.c")) else { return };
    for world in [1, 4] {
        let id = folder.path().join(format!("id-{world}"));
        succeed(ranks_of(&program, &[id.as_os_str()], world));
    }
}

#[test]
fn a_program_in_c_can_make_calls_until_its_very_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/late.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_child_that_a_program_in_c_forks_uses_nothing_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/forked.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_child_that_is_forked_while_others_make_calls_waits_for_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/crowded.c")) else { return };
    succeed(ranks_of(&program, &[], 1));
}

#[test]
fn a_program_in_c_runs_under_the_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = built("../consort");
    if !launcher.exists() {
        return skip("`consort` was not built: `cargo build -p consort-cli`");
    }
    let Some(program) = compile(folder.path(), &example("collectives.c")) else { return };
    let mut run = Command::new(launcher);
    run.args(["run", "-n", "4", "--"]).arg(program).arg(folder.path().join("id"));
    let output = run.env("LD_LIBRARY_PATH", built("")).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    for rank in 0..4 {
        let right = format!("rank {rank} of 4: all results are right");
        assert!(words(&output).contains(&right), "{}", words(&output));
    }
}

#[test]
fn a_program_in_c_does_not_touch_what_is_not_its_own() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("valgrind is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &example("collectives.c")) else { return };
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
fn the_headers_say_how_things_are_laid_out() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &here("tests/layout.c")) else { return };
    let output = Command::new(program).env("LD_LIBRARY_PATH", built("")).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let mut said = words(&output).lines().map(str::to_owned).collect::<Vec<_>>();
    said.sort();
    let mut known = layout();
    known.sort();
    assert_eq!(said, known);
}

/// As the program prints it.
fn layout() -> Vec<String> {
    let mut lines = vec![
        format!("ncclUniqueId {}", size_of::<UniqueId>()),
        format!("ncclConfig_t {}", size_of::<Config>()),
        format!("ncclSimInfo_t {}", size_of::<SimInfo>()),
        format!("ncclWaitSignalDesc_t {}", size_of::<WaitSignalDesc>()),
        format!("ncclTeam_t {}", size_of::<Team>()),
        format!("simulation {:#x} {}", SimInfo::INITIAL.magic, SimInfo::INITIAL.version),
        format!("configuration {:#x} {}", Config::INITIAL.magic, Config::INITIAL.version),
    ];
    macro_rules! fields {
        ($($name:literal $type:ty: $($field:ident)*;)*) => {$($(
            lines.push(format!("{}.{} {}", $name, stringify!($field), offset_of!($type, $field)));
        )*)*};
    }
    fields! {
        "ncclConfig_t" Config: size magic version blocking cgaClusterSize minCTAs maxCTAs netName splitShare
            trafficClass commName collnetEnable CTAPolicy shrinkShare nvlsCTAs nChannelsPerNetPeer
            nvlinkCentricSched graphUsageMode numRmaCtx maxP2pPeers graphStreamOrdering;
        "ncclSimInfo_t" SimInfo: size magic version estimatedTime;
        "ncclWaitSignalDesc_t" WaitSignalDesc: opCnt peer sigIdx ctx;
        "ncclTeam_t" Team: nRanks rank stride;
    }
    lines
}

#[test]
fn everything_that_the_headers_name_is_exported_under_both_names() {
    let library = Library::open([built("libconsort_nccl.so")]).unwrap();
    let mut count = 0;
    for header in ["nccl.h", "consort_nccl.h"] {
        let text = std::fs::read_to_string(here("include").join(header)).unwrap();
        for name in functions(&text) {
            let name = std::ffi::CString::new(name).unwrap();
            // SAFETY: it is not called.
            let found = unsafe { library.function::<unsafe extern "C" fn()>(&name) };
            assert!(found.is_some(), "{name:?}");
            count += 1;
        }
        if header == "nccl.h" {
            let names = functions(&text);
            let plain = names.iter().filter(|name| name.starts_with("nccl"));
            plain.for_each(|name| assert!(names.contains(&format!("p{name}")), "{name}"));
        }
    }
    assert!(count > 150, "{count}");
}

/// The names before a parenthesis that a line of a declaration begins with.
fn functions(header: &str) -> Vec<String> {
    let is_name = |name: &&str| ["nccl", "pnccl", "consort"].iter().any(|it| name.starts_with(it));
    header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split_once('(').map(|(before, _)| before))
        .filter_map(|before| before.rsplit([' ', '*']).next())
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_program_in_cpp_can_use_the_headers() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("all.cpp");
    std::fs::write(
        &source,
        "#include \"consort_nccl.h\"\nncclConfig_t c = NCCL_CONFIG_INITIALIZER;\n",
    )
    .unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-fsyntax-only", "-Wall", "-Werror", "-I"]).arg(here("include")).arg(source);
    match compiler.output() {
        Err(_) => skip("there is no compiler for C++"),
        Ok(output) => assert!(output.status.success(), "{}", words(&output)),
    }
}

#[test]
fn a_program_in_python_gets_right_results() {
    if Command::new("python3").arg("-c").arg("import ctypes").status().is_err() {
        return skip("there is no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let (script, library) = (here("tests/ctypes_program.py"), built("libconsort_nccl.so"));
    let id = folder.path().join("id");
    let arguments = [script.as_os_str(), library.as_os_str(), id.as_os_str()];
    succeed(ranks_of(Path::new("python3"), &arguments, 2));
}

/// A program, if there is a compiler.
fn compile(folder: &Path, source: &Path) -> Option<PathBuf> {
    let program = folder.join(source.file_stem().expect("it is a file"));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g",
        "-pthread",
    ]);
    compiler.arg("-I").arg(here("include")).arg("-o").arg(&program).arg(source);
    compiler.arg("-L").arg(built("")).arg("-lconsort_nccl");
    match compiler.output() {
        Err(_) => {
            skip("there is no compiler for C");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", words(&output));
            Some(program)
        }
    }
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

fn succeed(ranks: Vec<Child>) {
    let outputs: Vec<Output> =
        ranks.into_iter().map(|rank| rank.wait_with_output().expect("it ends")).collect();
    let all: String = outputs.iter().map(words).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{all}");
    assert_eq!(all.matches("all results are right").count(), outputs.len(), "{all}");
}

fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// What was built beside this test. Cargo's own search path may lead to an older one.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    test.parent().expect("it is in a folder").join(name)
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn example(name: &str) -> PathBuf {
    here("../../examples/c").join(name)
}
