//! What tests compile, and what was built beside them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use consort_testkit::skip;

/// A program in C or C++ that is linked with the library, if there is a compiler.
pub(crate) fn compile(folder: &Path, source: &Path) -> Option<PathBuf> {
    let is_cpp = source.extension() == Some(OsStr::new("cpp"));
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++11") } else { ("cc", "-std=c11") };
    let mut compiler = Command::new(compiler);
    compiler.args([standard, "-D_DEFAULT_SOURCE", "-g", "-pthread"]).args(with_our_headers());
    let program = folder.join(source.file_stem().expect("it is a file"));
    compiler.arg("-o").arg(&program).arg(source).arg("-L").arg(built("")).arg("-lconsort_nccl");
    is_done(compiler).then_some(program)
}

/// What a program in C says that needs headers and no library, in the order of its letters, if there is a compiler.
pub(crate) fn said_by(source: &Path, options: &[OsString]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c11").args(options).arg("-o").arg(&program).arg(source);
    if !is_done(compiler) {
        return None;
    }
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let mut lines: Vec<String> = words(&output).lines().map(str::to_owned).collect();
    lines.sort();
    Some(lines)
}

/// For programs that include this library's headers, in which there is nothing to complain about.
pub(crate) fn with_our_headers() -> Vec<OsString> {
    let mut options: Vec<OsString> = STRICT.map(OsString::from).into();
    options.extend(["-I".into(), here("include").into()]);
    options
}

fn is_done(mut compiler: Command) -> bool {
    let Ok(output) = compiler.output() else {
        skip(format!("there is no compiler `{}`", compiler.get_program().display()));
        return false;
    };
    assert!(output.status.success(), "{}", words(&output));
    true
}

pub(crate) fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// What was built beside this test. Cargo's own search path may lead to an older one.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    test.parent().expect("it is in a folder").join(name)
}

pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
