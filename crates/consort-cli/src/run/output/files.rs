//! Output in files, one directory per rank.
//!
//! The ranks write to the files themselves; nothing stands between them and the disk, and what
//! they wrote is there even if the launcher is not.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::tail::Tail;

/// The files of one start of the ranks: `DIR/JOB/attempt_K/RANK/{stdout.log,stderr.log}`.
#[derive(Debug)]
pub(crate) struct LogFiles {
    directory: PathBuf,
}

impl LogFiles {
    /// The files under `log_dir` for the start number `epoch` of `job`.
    pub(crate) fn new(log_dir: &Path, job: &str, epoch: u64) -> io::Result<Self> {
        let directory = std::path::absolute(log_dir)?.join(job).join(format!("attempt_{epoch}"));
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Creates a rank's two files, for its standard output and its standard error.
    pub(crate) fn create(&self, rank: u32) -> io::Result<[File; 2]> {
        let directory = self.directory.join(rank.to_string());
        fs::create_dir_all(&directory)?;
        let create = |name| File::options().create(true).append(true).open(directory.join(name));
        Ok([create(STDOUT)?, create(STDERR)?])
    }

    /// Where they all are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a PyTorch program may leave the reason of its failure.
    pub(crate) fn error_file(&self, rank: u32) -> PathBuf {
        self.directory.join(rank.to_string()).join("error.json")
    }

    /// A rank's last lines: its errors if it wrote any, its output otherwise.
    pub(crate) fn tail(&self, rank: u32) -> Vec<String> {
        let last = |name| {
            let path = self.directory.join(rank.to_string()).join(name);
            Tail::of_file(&path).map(|tail| tail.lines()).unwrap_or_default()
        };
        let errors = last(STDERR);
        if errors.is_empty() { last(STDOUT) } else { errors }
    }
}

const STDOUT: &str = "stdout.log";
const STDERR: &str = "stderr.log";

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_ranks_errors_tell_more_than_its_output() {
        let directory = tempfile::tempdir().unwrap();
        let files = LogFiles::new(directory.path(), "job", 1).unwrap();
        let [mut stdout, mut stderr] = files.create(3).unwrap();
        assert_eq!(files.tail(3), [""; 0]);
        writeln!(stdout, "epoch 1").unwrap();
        assert_eq!(files.tail(3), ["epoch 1"]);
        writeln!(stderr, "no such file").unwrap();
        assert_eq!(files.tail(3), ["no such file"]);
        let expected = directory.path().join("job/attempt_1/3/stdout.log");
        assert_eq!(fs::read(expected).unwrap(), b"epoch 1\n");
    }
}
