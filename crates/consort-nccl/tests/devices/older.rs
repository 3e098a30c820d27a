//! Another NCCL than this library, for one of the ranks.

use std::path::Path;
use std::process::Command;

use crate::stage::library;

/// Has this process find an older NCCL, 2.27.3, if it can be made here, with these options of a C compiler.
pub(crate) fn find_older(to: &Path, options: &[&str]) -> bool {
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(to)
        .arg(format!("-DLIBRARY=\"{}\"", library().display()))
        .arg("-DVERSION=22703")
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/old.c"))
        .arg("-ldl")
        .status();
    let is_built = cfg!(target_arch = "x86_64") && built.is_ok_and(|status| status.success());
    if is_built {
        // SAFETY: the process has just begun, and no other thread of it looks at its environment.
        unsafe { std::env::set_var("CONSORT_NCCL_LIBRARY", to) };
    }
    is_built
}
