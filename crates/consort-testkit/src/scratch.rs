//! A directory that lasts as long as the process that made it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// A temporary directory, removed when dropped. One whose owner was killed before it could is
/// removed by the next process that makes one.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
    _alive: File,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        sweep();
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir()
            .expect("the temporary directory can be written");
        let alive = mark_alive(dir.path()).expect("a new directory can be written and locked");
        Self { dir, _alive: alive }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Writes a file so that no reader ever sees half of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".draft");
    fs::write(&draft, bytes)?;
    fs::rename(draft, path)
}

/// The lock says that the owner lives: the kernel drops it with the process. It is taken before
/// the file gets its name, so that nobody sees the file unlocked.
fn mark_alive(dir: &Path) -> io::Result<File> {
    let draft = dir.join("alive.draft");
    let file = File::create(&draft)?;
    file.lock()?;
    fs::rename(draft, dir.join(ALIVE))?;
    Ok(file)
}

/// Removes the directories of owners that are dead. Several processes may do so at once.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(dir: &Path) -> bool {
    File::open(dir.join(ALIVE)).is_ok_and(|file| file.try_lock().is_ok())
}

const PREFIX: &str = "consort-test-";
const ALIVE: &str = "alive";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_kept_while_its_owner_lives_and_swept_afterwards() {
        let owned = Scratch::new();
        let orphan = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap().keep();
        fs::write(orphan.join(ALIVE), b"").unwrap();

        let later = Scratch::new();

        assert!(owned.path().exists());
        // Another process may be sweeping it at this moment, and then ours leaves it alone.
        assert!((0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !orphan.exists()
        }));
        let path = later.path().to_owned();
        drop(later);
        assert!(!path.exists());
    }
}
