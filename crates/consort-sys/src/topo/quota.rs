//! How much processor time the control groups grant.

use std::cmp::Ordering;

use crate::cgroup::{Cgroups, Version};
use crate::root::Root;

/// A share of processor time: so much in each period, for all processes of a group together.
///
/// ```
/// use consort_sys::topo::Quota;
///
/// let quota = Quota::new(250_000, 100_000).unwrap();
/// assert_eq!(quota.cores(), 2.5);
/// assert_eq!(quota.whole_cores(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    allowed_us: u64,
    period_us: u64,
}

impl Quota {
    /// `allowed_us` microseconds of processor time in every `period_us`. Neither can be zero.
    pub fn new(allowed_us: u64, period_us: u64) -> Option<Self> {
        (allowed_us > 0 && period_us > 0).then_some(Self { allowed_us, period_us })
    }

    /// How many processors' worth that is.
    pub fn cores(&self) -> f64 {
        self.allowed_us as f64 / self.period_us as f64
    }

    /// How many threads can run all the time: [`cores`](Self::cores) rounded down, at least 1.
    pub fn whole_cores(&self) -> usize {
        usize::try_from(self.allowed_us / self.period_us).unwrap_or(usize::MAX).max(1)
    }

    fn compare(&self, other: &Self) -> Ordering {
        let cross = |a: &Self, b: &Self| u128::from(a.allowed_us) * u128::from(b.period_us);
        cross(self, other).cmp(&cross(other, self))
    }

    /// `cpu.max` of version 2: `max 100000` or `150000 100000`.
    fn parse_v2(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (allowed, period) = (words.next()?, words.next()?);
        Self::new(allowed.parse().ok()?, period.parse().ok()?)
    }

    /// `cpu.cfs_quota_us`, -1 for no limit, and `cpu.cfs_period_us` of version 1.
    fn parse_v1(allowed: &str, period: &str) -> Option<Self> {
        Self::new(allowed.trim().parse().ok()?, period.trim().parse().ok()?)
    }
}

/// The least quota of the process's group and all its ancestors.
pub(super) fn read(root: Root<'_>, cgroups: &Cgroups) -> Option<Quota> {
    let chain = cgroups.chain("cpu")?;
    let quotas = chain.directories.iter().filter_map(|directory| match chain.version {
        Version::V2 => Quota::parse_v2(&root.text(directory.join("cpu.max"))?),
        Version::V1 => Quota::parse_v1(
            &root.text(directory.join("cpu.cfs_quota_us"))?,
            &root.text(directory.join("cpu.cfs_period_us"))?,
        ),
    });
    quotas.min_by(Quota::compare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn both_spellings_are_read_and_no_limit_is_none() {
        assert_eq!(Quota::parse_v2("150000 100000"), Quota::new(150_000, 100_000));
        assert_eq!(Quota::parse_v1("150000", "100000"), Quota::new(150_000, 100_000));
        assert_eq!(Quota::parse_v2("max 100000"), None);
        assert_eq!(Quota::parse_v1("-1", "100000"), None);
    }

    #[test]
    fn malformed_quotas_are_no_quota() {
        for text in ["", "100000", "0 100000", "100000 0", "-5 100000", "x y"] {
            assert_eq!(Quota::parse_v2(text), None, "{text:?}");
        }
        assert_eq!(Quota::parse_v1("", ""), None);
    }

    #[test]
    fn the_tightest_ancestor_of_version_two_binds() {
        let machine = fake::machine(&[
            ("proc/self/cgroup", "0::/a/b/c"),
            ("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw"),
            ("sys/fs/cgroup/a/cpu.max", "30000 10000"),
            ("sys/fs/cgroup/a/b/cpu.max", "250000 100000"),
            ("sys/fs/cgroup/a/b/c/cpu.max", "max 100000"),
        ]);
        let root = Root(machine.path());
        assert_eq!(read(root, &Cgroups::read(root)).unwrap().cores(), 2.5);
    }

    #[test]
    fn version_one_reads_two_files() {
        let machine = fake::machine(&[
            ("proc/self/cgroup", "7:cpu,cpuacct:/job"),
            ("proc/self/mountinfo", "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct"),
            ("cg/cpu/cpu.cfs_quota_us", "-1"),
            ("cg/cpu/cpu.cfs_period_us", "100000"),
            ("cg/cpu/job/cpu.cfs_quota_us", "400000"),
            ("cg/cpu/job/cpu.cfs_period_us", "100000"),
        ]);
        let root = Root(machine.path());
        assert_eq!(read(root, &Cgroups::read(root)).unwrap().whole_cores(), 4);
    }

    #[test]
    fn a_group_without_files_has_no_quota() {
        let machine = fake::machine(&[
            ("proc/self/cgroup", "0::/job"),
            ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw"),
        ]);
        let root = Root(machine.path());
        assert_eq!(read(root, &Cgroups::read(root)), None);
    }
}
