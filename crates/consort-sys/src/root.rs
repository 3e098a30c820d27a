//! Reading the small files in which the kernel describes itself.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory that counts as `/`. Paths below it are written without the leading slash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root<'a>(pub(crate) &'a Path);

impl Root<'_> {
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without the line end, `None` when it cannot be read.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The names in a directory, in no order; none when it cannot be read.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The numbers `7` of entries such as `cpu7`, in order.
    pub(crate) fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(directory);
        let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The number after `name:` in a file of `name: number [kB]` lines, in bytes when it says `kB`.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([':', ' ']))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => number.checked_mul(1024),
        _ => Some(number),
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use std::fs;

    use tempfile::TempDir;

    use super::Root;

    /// A directory that looks like a machine with these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = Root(directory.path()).path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name_and_scaled() {
        let text = "MemTotal:       1024 kB\nMemTotalX: 7\nHugePages_Free:      3\nbroken: kB";
        assert_eq!(field(text, "MemTotal"), Some(1024 * 1024));
        assert_eq!(field(text, "HugePages_Free"), Some(3));
        assert_eq!(field(text, "broken"), None);
        assert_eq!(field(text, "absent"), None);
        assert_eq!(field("inactive_file 4096", "inactive_file"), Some(4096));
    }

    #[test]
    fn a_field_too_large_to_count_in_bytes_is_no_number() {
        assert_eq!(field(&format!("MemTotal: {} kB", u64::MAX), "MemTotal"), None);
    }

    #[test]
    fn numbered_entries_are_sorted_and_others_left_out() {
        let machine =
            fake::machine(&[("cpu/cpu10/x", ""), ("cpu/cpu2/x", ""), ("cpu/cpufreq/x", "")]);
        let root = Root(machine.path());
        assert_eq!(root.numbered("cpu", "cpu"), [2, 10]);
        assert_eq!(root.numbered("nothing", "cpu"), [0_u32; 0]);
    }

    #[test]
    fn a_missing_or_wordy_file_is_no_number() {
        let machine = fake::machine(&[("a", "12\n"), ("b", "max\n")]);
        let root = Root(machine.path());
        assert_eq!(root.number("/a"), Some(12));
        assert_eq!(root.number("b"), None);
        assert_eq!(root.number("c"), None);
    }
}
