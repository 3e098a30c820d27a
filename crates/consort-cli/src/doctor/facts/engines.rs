//! The engines that this host has, beside consort's own.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use consort::engines::{self, Found, Unusable};

/// What was found of each, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Engines {
    pub(crate) mpi: Result<Found, Unusable>,
    pub(crate) nccl: Result<Found, Unusable>,
    /// Where the first `python3` of the path is, if that is none but chooses one. So it is not known beside which
    /// Python to look.
    pub(crate) stand_in: Option<PathBuf>,
}

impl Engines {
    pub(super) fn gather() -> Self {
        let stand_in = stand_in(&env::var_os("PATH").unwrap_or_default());
        Self { mpi: engines::mpi(), nccl: engines::nccl(), stand_in }
    }
}

/// The folder of the first `python3` of a path, if it is one of pyenv's or its like.
fn stand_in(path: &OsStr) -> Option<PathBuf> {
    let folder = env::split_paths(path).find(|folder| folder.join("python3").is_file())?;
    folder.ends_with("shims").then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_python_that_only_chooses_one_is_known_by_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let [empty, shims, bin] =
            ["empty/shims", "pyenv/shims", "usr/bin"].map(|name| folder.path().join(name));
        for folder in [&shims, &bin] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("python3"), "").unwrap();
        }
        let of = |folders: &[&PathBuf]| stand_in(&env::join_paths(folders).unwrap());
        assert_eq!(of(&[&empty, &shims, &bin]), Some(shims.clone()));
        assert_eq!(of(&[&empty, &bin, &shims]), None);
        assert_eq!(of(&[&empty]), None);
    }
}
