//! Where NCCL may be.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to try, and where there was nothing to try.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// In this order.
    pub(super) candidates: Vec<PathBuf>,
    /// Looked at without finding anything.
    pub(super) empty: Vec<PathBuf>,
}

/// Where NCCL may be, by what the environment says: the file that [`VARIABLE`] names and nothing else, or what the
/// system finds by itself, and then the wheels of Python environments. No Python is run.
pub(super) fn places(variable: impl Fn(&str) -> Option<OsString>) -> Places {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(named) = variable(VARIABLE) {
        return Places { candidates: vec![named.into()], ..Places::default() };
    }
    let mut places = Places { candidates: SYSTEM.map(PathBuf::from).into(), ..Places::default() };
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(variable)
        .map(PathBuf::from)
        .collect();
    prefixes.extend(variable("PATH").and_then(|path| pythons_prefix(&path)));
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.dedup();
    for prefix in prefixes {
        let wheels = wheels(&prefix);
        if wheels.is_empty() {
            places.empty.push(prefix.join("lib/python3*/site-packages").join(WHEEL));
        }
        places.candidates.extend(wheels);
    }
    places
}

/// The folder that holds the first `python3` of a path, its `bin`, its `lib`.
fn pythons_prefix(path: &OsString) -> Option<PathBuf> {
    let bin = std::env::split_paths(path).find(|folder| folder.join("python3").is_file())?;
    bin.parent().map(Path::to_owned)
}

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

/// Names the file.
pub(super) const VARIABLE: &str = "CONSORT_NCCL_LIBRARY";
/// What the system looks for by itself.
const SYSTEM: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// Where `nvidia-nccl-cu12` and `-cu13` put it, below the packages.
const WHEEL: &str = "nvidia/nccl/lib/libnccl.so.2";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(variables: &[(&str, &Path)]) -> Places {
        places(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.as_os_str().to_owned())
        })
    }

    fn put_wheel(prefix: &Path, python: &str) -> PathBuf {
        let file = prefix.join("lib").join(python).join("site-packages").join(WHEEL);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        file
    }

    #[test]
    fn a_file_that_is_named_is_the_only_one_tried() {
        let named = Path::new("/somewhere/libnccl.so.2");
        let places = of(&[(VARIABLE, named), ("VIRTUAL_ENV", Path::new("/v"))]);
        assert_eq!(places, Places { candidates: vec![named.to_owned()], empty: vec![] });
    }

    #[test]
    fn without_an_environment_the_system_is_asked() {
        let places = of(&[(VARIABLE, Path::new(""))]);
        assert_eq!(places.candidates, ["libnccl.so.2", "libnccl.so"].map(PathBuf::from));
    }

    #[test]
    fn wheels_of_the_active_environment_and_of_the_first_python_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let [active, python, home] =
            ["active", "python", "home"].map(|name| folder.path().join(name));
        let earlier = put_wheel(&active, "python3.9");
        let later = put_wheel(&active, "python3.12");
        let other = put_wheel(&python, "python3.11");
        fs::create_dir_all(python.join("bin")).unwrap();
        fs::write(python.join("bin/python3"), "").unwrap();
        let path =
            std::env::join_paths([folder.path().join("nothing"), python.join("bin")]).unwrap();
        let places = of(&[("VIRTUAL_ENV", &active), ("PATH", Path::new(&path)), ("HOME", &home)]);
        assert_eq!(places.candidates[2..], [later, earlier, other]);
        assert_eq!(places.empty.len(), 1);
        assert!(places.empty[0].starts_with(&home));
    }
}
