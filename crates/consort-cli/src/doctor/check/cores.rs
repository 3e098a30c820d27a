//! How many ranks have room here.

use consort_sys::topo::Topology;

use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;

/// How many ranks can run without sharing a core.
pub(crate) fn ranks(topology: &Topology) -> Finding {
    let cores = topology.effective_cores();
    let allowed = topology.allowed.len();
    let mut what = if allowed < topology.online.len() {
        format!("{allowed} of {} processors allowed ({})", topology.online.len(), topology.allowed)
    } else {
        format!("{} ({})", words::count(allowed, "processor"), topology.allowed)
    };
    let quota = topology.quota.filter(|quota| quota.cores() < allowed as f64);
    if let Some(quota) = quota {
        what += &format!(", quota {:.1} of them", quota.cores());
    }
    what += &format!(": up to {} without sharing cores", words::count(cores, "rank"));
    match quota {
        Some(_) => {
            let todo =
                format!("start at most -n {cores}, or raise the container's processor limit");
            Finding::warning(Area::Cores, what, todo)
        }
        None if cores == 1 => {
            Finding::warning(Area::Cores, what, "more ranks take turns: good for trying out only")
        }
        None => Finding::good(Area::Cores, what),
    }
}

/// Threads of one core, memory nodes, caches.
pub(crate) fn layout(topology: &Topology) -> Finding {
    let mut parts = vec![match topology.shares_cores() {
        true => {
            format!("{} with several threads each", words::count(topology.physical_cores, "core"))
        }
        false => "every processor is a core of its own".to_owned(),
    }];
    let nodes: Vec<String> =
        topology.allowed_nodes().map(|node| format!("{} ({})", node.id, node.cpus)).collect();
    match nodes.len() {
        0 => {}
        1 => parts.push("one memory node".to_owned()),
        _ => parts.push(format!("memory nodes {}", words::list(&nodes))),
    }
    if let Some(cache) = topology.last_cache() {
        parts.push(format!("{} of level {} cache", words::bytes(cache.bytes), cache.level));
    }
    let (what, cores) = (parts.join("; "), topology.physical_cores);
    match topology.shares_cores() {
        true => {
            let todo = format!("ranks that compute all the time run best with -n {cores} or fewer");
            Finding::note(Area::Cores, what, todo)
        }
        false => Finding::good(Area::Cores, what),
    }
}

#[cfg(test)]
mod tests {
    use consort_sys::topo::{Cache, CacheKind, CpuSet, Node, Quota};

    use super::*;
    use crate::doctor::finding::Verdict;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    fn machine(online: &str, allowed: &str) -> Topology {
        let allowed = cpus(allowed);
        Topology {
            online: cpus(online),
            physical_cores: allowed.len(),
            allowed,
            quota: None,
            nodes: Vec::new(),
            caches: Vec::new(),
        }
    }

    #[test]
    fn several_free_cores_are_good() {
        let finding = ranks(&machine("0-3", "0-3"));
        assert_eq!(finding.verdict, Verdict::Good);
        assert_eq!(finding.what, "4 processors (0-3): up to 4 ranks without sharing cores");
    }

    #[test]
    fn a_narrow_mask_is_told() {
        let finding = ranks(&machine("0-63", "8-11"));
        assert!(finding.what.starts_with("4 of 64 processors allowed (8-11): up to 4"));
    }

    #[test]
    fn a_quota_is_a_warning_with_the_number_of_ranks_to_start() {
        let quota = Quota::new(250_000, 100_000);
        let finding = ranks(&Topology { quota, ..machine("0-7", "0-7") });
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.what.contains("quota 2.5 of them: up to 2 ranks"), "{}", finding.what);
        assert!(finding.todo.unwrap().contains("-n 2"));
        let roomy = Quota::new(900_000, 100_000);
        let finding = ranks(&Topology { quota: roomy, ..machine("0-7", "0-7") });
        assert_eq!(finding.verdict, Verdict::Good);
    }

    #[test]
    fn a_single_core_is_a_warning() {
        assert_eq!(ranks(&machine("0", "0")).verdict, Verdict::Warning);
    }

    #[test]
    fn the_layout_names_threads_nodes_and_cache() {
        let node = |id, list| Node { id, cpus: cpus(list), bytes: None };
        let finding = layout(&Topology {
            physical_cores: 4,
            nodes: vec![node(0, "0-3"), node(1, "4-7"), node(2, "")],
            caches: vec![Cache {
                level: 3,
                kind: CacheKind::Unified,
                bytes: 32 << 20,
                cpus: cpus("0-7"),
            }],
            ..machine("0-7", "0-7")
        });
        assert_eq!(
            finding.what,
            "4 cores with several threads each; memory nodes 0 (0-3) and 1 (4-7); 32 MiB of level 3 cache"
        );
        assert!(finding.todo.unwrap().contains("-n 4"));
        assert_eq!(layout(&machine("0-1", "0-1")).what, "every processor is a core of its own");
    }
}
