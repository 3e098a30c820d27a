//! What has a name where shared memory can have one.

use std::fs;

/// Names in `/dev/shm` that could be a rank's: there should be none, for ranks share memory without a
/// name. Those that begin with `consort-` are records, which launchers keep of jobs that have failed.
pub fn names_in_shared_memory() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("consort") && !name.starts_with("consort-")).collect()
}
