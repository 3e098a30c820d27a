//! Where the ranks read the job's secret.
//!
//! Command lines and environments can be read by others, and a file would be left behind after a
//! SIGKILL. So the launcher keeps the secret in memory that has a descriptor but no name, and
//! tells its ranks the path of that descriptor, which only the same user can open.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// The secret as a file that ranks can read, for as long as this lives.
#[derive(Debug)]
pub(crate) struct SecretFile {
    path: PathBuf,
    _memory: Option<File>,
}

impl SecretFile {
    /// The file the user gave.
    pub(crate) fn given(path: &Path) -> io::Result<Self> {
        Ok(Self { path: std::path::absolute(path)?, _memory: None })
    }

    /// A file without a name, with `contents` that nobody can change.
    pub(crate) fn in_memory(contents: &[u8]) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("consort-secret", flags)?);
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(contents)?;
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, all)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        Ok(Self { path, _memory: Some(file) })
    }

    /// Where it can be read.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_secret_in_memory_can_be_read_by_its_owner_and_changed_by_nobody() {
        let file = SecretFile::in_memory(b"hush").unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"hush");
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        let mut writer = File::options().write(true).open(file.path()).unwrap();
        assert!(writer.write_all(b"loud").is_err());
        assert_eq!(fs::read(file.path()).unwrap(), b"hush");
    }

    #[test]
    fn a_secret_in_memory_is_gone_with_its_owner() {
        let file = SecretFile::in_memory(b"hush").unwrap();
        let path = file.path().to_owned();
        drop(file);
        // The number of the descriptor may belong to another file by now.
        assert_ne!(fs::read(path).ok().as_deref(), Some(&b"hush"[..]));
    }

    #[test]
    fn a_given_file_is_found_from_any_directory() {
        let file = SecretFile::given(Path::new("job.secret")).unwrap();
        assert!(file.path().is_absolute());
        assert!(file.path().ends_with("job.secret"));
    }
}
