//! Folders and the secret's file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use consort_store::Secret;
use consort_sys::memory::Space;

/// Folders and the secret's file.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The folder for temporary files.
    pub(crate) temporary: Folder,
    /// The job's secret, if one was given.
    pub(crate) secret: Option<SecretFile>,
}

/// A folder in which things are to be written.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// What the system said to an attempt to write a file.
    pub(crate) written: Result<(), String>,
    pub(crate) space: Option<Space>,
}

/// A file that should hold a secret.
#[derive(Clone, Debug)]
pub(crate) struct SecretFile {
    pub(crate) path: PathBuf,
    pub(crate) read: Result<(), String>,
}

impl Files {
    pub(super) fn gather(secret_file: Option<&Path>) -> Self {
        let secret = secret_file.map(|path| SecretFile {
            path: path.to_owned(),
            read: Secret::from_file(path).map(drop).map_err(|error| error.to_string()),
        });
        Self { temporary: Folder::look(&std::env::temp_dir()), secret }
    }
}

impl Folder {
    /// Writes a small file and removes it again.
    pub(crate) fn look(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            written: try_write(path).map_err(|error| error.to_string()),
            space: Space::of(path).ok(),
        }
    }
}

fn try_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".consort-doctor-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    let written = file.write_all(b"consort doctor was here\n");
    fs::remove_file(&path)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_at_a_folder_leaves_it_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let seen = Folder::look(folder.path());
        assert_eq!(seen.written, Ok(()));
        assert!(seen.space.is_some_and(|space| space.total > 0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_folder_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let seen = Folder::look(&folder.path().join("nowhere"));
        assert!(seen.written.is_err());
        assert_eq!(seen.space, None);
    }

    #[test]
    fn a_secret_file_is_read_as_a_job_would() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(Files::gather(Some(&path)).secret.unwrap().read.is_err());
        Secret::generate().unwrap().write_new(&path).unwrap();
        assert_eq!(Files::gather(Some(&path)).secret.unwrap().read, Ok(()));
        assert!(Files::gather(None).secret.is_none());
    }
}
