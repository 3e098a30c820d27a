//! The caches between processors and memory.

use std::path::PathBuf;

use super::CpuSet;
use crate::root::Root;

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the processor.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size.
    pub bytes: u64,
    /// The processors that share it.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl CacheKind {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Data" => Some(Self::Data),
            "Instruction" => Some(Self::Instruction),
            "Unified" => Some(Self::Unified),
            _ => None,
        }
    }
}

/// The caches of the `allowed` processors, each named once however many share it.
pub(super) fn read(root: Root<'_>, allowed: &CpuSet) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in allowed.iter() {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        for index in root.numbered(&directory, "index") {
            let found = read_one(root, format!("{directory}/index{index}").into());
            caches.extend(found.filter(|cache| !caches.contains(cache)));
        }
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn read_one(root: Root<'_>, directory: PathBuf) -> Option<Cache> {
    let text = |name| root.text(directory.join(name));
    Some(Cache {
        level: text("level")?.parse().ok()?,
        kind: CacheKind::parse(&text("type")?)?,
        bytes: parse_size(&text("size")?)?,
        cpus: CpuSet::parse(&text("shared_cpu_list")?)?,
    })
}

/// `48K`, `2M` or plain bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 1 << 10),
        Some(number) if text.ends_with('M') => (number, 1 << 20),
        Some(number) => (number, 1 << 30),
        None => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn sizes_are_read_in_every_unit() {
        assert_eq!(parse_size("48K"), Some(48 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("1G"), Some(1 << 30));
        assert_eq!(parse_size("512"), Some(512));
        for text in ["", "K", "4T", "-1K", "99999999999999999999K", "18446744073709551615G"] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_shared_cache_is_named_once_and_a_broken_one_left_out() {
        let mut files = Vec::new();
        for cpu in 0..2 {
            let base = format!("sys/devices/system/cpu/cpu{cpu}/cache");
            let own = cpu.to_string();
            for (index, entry) in
                [["3", "Unified", "32M", "0-1"], ["1", "Data", "48K", own.as_str()]]
                    .iter()
                    .enumerate()
            {
                for (name, text) in ["level", "type", "size", "shared_cpu_list"].iter().zip(entry) {
                    files.push((format!("{base}/index{index}/{name}"), (*text).to_owned()));
                }
            }
            files.push((format!("{base}/index9/level"), "?".to_owned()));
        }
        let files: Vec<_> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let machine = fake::machine(&files);

        let caches = read(Root(machine.path()), &CpuSet::parse("0-1").unwrap());
        let levels: Vec<_> = caches.iter().map(|cache| (cache.level, cache.bytes)).collect();
        assert_eq!(levels, [(1, 48 << 10), (1, 48 << 10), (3, 32 << 20)]);
        assert_eq!(caches[2].cpus.to_string(), "0-1");
        assert_eq!(caches[2].kind, CacheKind::Unified);
    }
}
