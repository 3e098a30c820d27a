//! Another NCCL than this library, for one of the ranks.

use std::path::Path;
use std::process::{Command, Stdio};

use consort_testkit::Skip;

use crate::stage::library;

/// Whether an older NCCL can be made here. A test asks before it starts its ranks: from then on whatever
/// goes wrong is a failure.
pub(crate) fn can_be_made() -> Result<(), Skip> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::new("older versions are made for x86_64"));
    }
    match Command::new("cc").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(_) => Err(Skip::new("there is no C compiler that makes another NCCL")),
    }
}

/// Has this process find an older NCCL, 2.27.3, which is made with these options of a C compiler.
pub(crate) fn find_older(to: &Path, options: &[&str]) {
    find("CONSORT_NCCL_LIBRARY", "tests/api/old.c", "-DVERSION=22703", to, options);
}

/// The same with one that is not older than this library.
pub(crate) fn find_another(to: &Path, options: &[&str]) {
    find("CONSORT_NCCL_LIBRARY", "tests/devices/another.c", "-DVERSION=23007", to, options);
}

/// Has this process find a driver of CUDA's that writes down there what children ask of it.
pub(crate) fn find_watched_driver(to: &Path, children: &Path) {
    let option = format!("-DCHILDREN=\"{}\"", children.display());
    find("CONSORT_CUDA_LIBRARY", "tests/devices/driver.c", "-DVERSION=0", to, &[&option]);
}

fn find(variable: &str, source: &str, version: &str, to: &Path, options: &[&str]) {
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(to)
        .arg(format!("-DLIBRARY=\"{}\"", library().display()))
        .arg(version)
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // SAFETY: the process has just begun, and no other thread of it looks at its environment.
    unsafe { std::env::set_var(variable, to) };
}
