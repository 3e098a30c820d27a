//! Where NCCL may be.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use crate::places::Search;

/// Where NCCL is looked for.
pub(super) const SEARCH: Search = Search {
    variable: "CONSORT_NCCL_LIBRARY",
    system: &["libnccl.so.2", "libnccl.so"],
    programs: &[],
    helpers: &[],
    below: wheels,
    pattern: "lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
};

/// NCCL in the packages of a Python, of the latest first.
fn wheels(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "local/lib"] {
        let Ok(entries) = std::fs::read_dir(prefix.join(lib)) else { continue };
        let is_python = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        };
        for python in entries.flatten().map(|entry| entry.path()).filter(is_python) {
            let folders = ["site-packages", "dist-packages"].map(|packages| python.join(packages));
            found.extend(
                folders.map(|packages| packages.join(WHEEL)).into_iter().filter(|it| it.is_file()),
            );
        }
    }
    found.sort_by_key(|path| Reverse((numbers_in(path), path.clone())));
    found
}

/// The numbers in a path: version 3.9 comes before 3.12.
fn numbers_in(path: &Path) -> Vec<u64> {
    let path = path.to_string_lossy();
    path.split(|letter: char| !letter.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect()
}

/// Where `nvidia-nccl-cu12` and `-cu13` put it, below the packages.
const WHEEL: &str = "nvidia/nccl/lib/libnccl.so.2";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn wheels_of_the_latest_python_come_first() {
        let prefix = tempfile::tempdir().unwrap();
        let put = |python: &str| {
            let file = prefix.path().join("lib").join(python).join("site-packages").join(WHEEL);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            file
        };
        let (earlier, later) = (put("python3.9"), put("python3.12"));
        assert_eq!(wheels(prefix.path()), [later, earlier]);
        assert!(wheels(&prefix.path().join("nothing")).is_empty());
    }
}
