//! What this process may compute with.

mod cache;
mod cpus;
mod node;
mod quota;

use std::path::Path;

pub use cache::{Cache, CacheKind};
pub use cpus::CpuSet;
pub use node::Node;
pub use quota::Quota;

use crate::cgroup::Cgroups;
use crate::root::Root;

/// The processors, caches and memory nodes of this machine, as far as this process may use them.
///
/// ```
/// use consort_sys::topo::Topology;
///
/// let machine = Topology::here();
/// println!("allowed on {} of {}", machine.allowed, machine.online);
/// if let Some(quota) = machine.quota {
///     println!("and no more than {:.1} at a time", quota.cores());
/// }
/// assert!(machine.effective_cores() <= machine.allowed.len().max(1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The processors that are switched on.
    pub online: CpuSet,
    /// The processors that this process may run on: its affinity mask.
    pub allowed: CpuSet,
    /// How much processor time its control groups grant it, the least of all ancestors.
    pub quota: Option<Quota>,
    /// How many physical cores the allowed processors are. Less than `allowed.len()` when some
    /// are two threads of one core.
    pub physical_cores: usize,
    /// The memory nodes, in order of their number. Empty when the kernel does not say.
    pub nodes: Vec<Node>,
    /// The caches of the allowed processors, smallest level first.
    pub caches: Vec<Cache>,
}

impl Topology {
    /// The machine this process runs on.
    pub fn here() -> Self {
        let root = Path::new("/");
        Self::under(root, allowed_here(Root(root)))
    }

    /// The machine described by the files under `root`, for a process that may run on `allowed`.
    pub fn under(root: &Path, allowed: CpuSet) -> Self {
        let root = Root(root);
        let online = root.text("sys/devices/system/cpu/online");
        Self {
            online: online.and_then(|text| CpuSet::parse(&text)).unwrap_or_else(|| allowed.clone()),
            quota: quota::read(root, &Cgroups::read(root)),
            physical_cores: physical_cores(root, &allowed),
            nodes: node::read(root),
            caches: cache::read(root, &allowed),
            allowed,
        }
    }

    /// How many threads can run at the same time without taking turns.
    ///
    /// The allowed processors, or the quota if that is less. A quota is rounded *down*: with 1.5
    /// cores, two ranks that never sleep use up their time two thirds through each period and then
    /// stand still until the next. At least 1.
    pub fn effective_cores(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |quota| quota.whole_cores());
        self.allowed.len().min(quota).max(1)
    }

    /// Whether some allowed processors are threads of the same core.
    pub fn shares_cores(&self) -> bool {
        self.physical_cores < self.allowed.len()
    }

    /// The memory nodes that have an allowed processor.
    pub fn allowed_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.cpus.intersects(&self.allowed))
    }

    /// The largest cache that an allowed processor has.
    pub fn last_cache(&self) -> Option<&Cache> {
        self.caches.iter().max_by_key(|cache| (cache.level, cache.bytes))
    }
}

/// The affinity mask. The system call's answer ends at a thousand processors; the kernel's text
/// does not.
fn allowed_here(root: Root<'_>) -> CpuSet {
    match rustix::thread::sched_getaffinity(None) {
        Ok(mask) => {
            let processors = 0..rustix::thread::CpuSet::MAX_CPU as u32;
            processors.filter(|&cpu| mask.is_set(cpu as usize)).collect()
        }
        Err(_) => allowed_by_status(&root.text("proc/self/status").unwrap_or_default()),
    }
}

fn allowed_by_status(status: &str) -> CpuSet {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(CpuSet::parse).unwrap_or_default()
}

fn physical_cores(root: Root<'_>, allowed: &CpuSet) -> usize {
    let siblings = |cpu| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        root.text(path).and_then(|text| CpuSet::parse(&text))
    };
    let mut cores: Vec<CpuSet> = allowed
        .iter()
        .map(|cpu| siblings(cpu).unwrap_or_else(|| CpuSet::from_iter([cpu])))
        .collect();
    cores.sort();
    cores.dedup();
    cores.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    #[test]
    fn two_threads_of_one_core_count_as_one_physical_core() {
        let siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list";
        let path = |cpu: u32| siblings.replace("{}", &cpu.to_string());
        let files = [(path(0), "0,2"), (path(1), "1,3"), (path(2), "0,2"), (path(3), "1,3")];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let machine = fake::machine(&files);

        let whole = Topology::under(machine.path(), cpus("0-3"));
        assert_eq!((whole.physical_cores, whole.shares_cores()), (2, true));
        let one_each = Topology::under(machine.path(), cpus("0-1"));
        assert_eq!((one_each.physical_cores, one_each.shares_cores()), (2, false));
        assert_eq!(Topology::under(machine.path(), cpus("0,2")).physical_cores, 1);
    }

    #[test]
    fn the_smaller_of_affinity_and_quota_counts() {
        let machine = |max: &str| {
            fake::machine(&[
                ("proc/self/cgroup", "0::/job"),
                ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw"),
                ("cg/job/cpu.max", max),
                ("sys/devices/system/cpu/online", "0-15"),
            ])
        };
        let effective = |max: &str, allowed: &str| {
            Topology::under(machine(max).path(), cpus(allowed)).effective_cores()
        };
        assert_eq!(effective("max 100000", "0-7"), 8);
        assert_eq!(effective("350000 100000", "0-7"), 3, "rounded down");
        assert_eq!(effective("50000 100000", "0-7"), 1, "at least one");
        assert_eq!(effective("800000 100000", "0-1"), 2, "the mask is smaller");
    }

    #[test]
    fn an_empty_machine_still_has_one_core() {
        let nothing = fake::machine(&[]);
        let machine = Topology::under(nothing.path(), CpuSet::default());
        assert_eq!(machine.effective_cores(), 1);
        assert_eq!((machine.nodes.len(), machine.caches.len(), machine.quota), (0, 0, None));
    }

    #[test]
    fn the_mask_can_be_read_from_the_status_file() {
        let status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-1,1030\n";
        assert_eq!(allowed_by_status(status), cpus("0-1,1030"));
        assert!(allowed_by_status("Name: x").is_empty());
    }

    #[test]
    fn this_machine_agrees_with_the_standard_library() {
        let here = Topology::here();
        let std = std::thread::available_parallelism().unwrap().get();
        assert!(here.effective_cores() <= std, "{} > {std}", here.effective_cores());
        assert_eq!(
            here.allowed,
            allowed_by_status(&Root(Path::new("/")).text("proc/self/status").unwrap())
        );
        if here.quota.is_none() {
            assert_eq!(here.effective_cores(), std);
        }
    }
}
