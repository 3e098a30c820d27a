//! Files, processes and locked memory.

use consort_sys::limits::{Amount, ResourceLimits};

use crate::doctor::finding::{Area, Finding};
use crate::doctor::words;
use crate::files;

/// Whether there are files enough, for the launcher, which takes what it may get, and for the ranks,
/// which keep the limit they have.
pub(crate) fn open_files(limits: &ResourceLimits, ranks: u64) -> Finding {
    let limit = limits.open_files;
    let Amount::Of(soft) = limit.soft else {
        return Finding::good(Area::Limits, "open files: unlimited");
    };
    let launcher = match limit.hard {
        Amount::Of(hard) => files::most_ranks_of_launcher(hard, false),
        Amount::Unlimited => u64::MAX,
    };
    let most = launcher.min(files::most_ranks_in_group(soft));
    let raised = match limit.hard {
        Amount::Of(hard) if hard > soft => format!(" ({hard} for the launcher)"),
        _ => String::new(),
    };
    let what = format!("open files: {soft}{raised}, enough for {most} ranks on this host");
    let todo = if launcher >= MANY && launcher > most {
        format!("ulimit -n {} (allowed without being root)", hard_or(limit.hard, 65_536))
    } else {
        "raise nofile in /etc/security/limits.conf, or docker run --ulimit nofile=65536".to_owned()
    };
    match most {
        _ if most < ranks => Finding::bad(Area::Limits, what, todo),
        _ if most < MANY => Finding::warning(Area::Limits, what, todo),
        _ => Finding::good(Area::Limits, what),
    }
}

/// Whether processes and threads enough can be started.
pub(crate) fn processes(limits: &ResourceLimits, ranks: u64) -> Finding {
    let group = limits.group_processes.map_or(Amount::Unlimited, |group| Amount::Of(group.left()));
    let (room, what, todo) = if group < limits.processes.soft {
        let what = format!("processes: room for {group} more in this control group");
        (group, what, "raise the container's process limit: docker run --pids-limit=4096")
    } else {
        let what = format!("processes: {} for this user", limits.processes.soft);
        (
            limits.processes.soft,
            what,
            "raise it with ulimit -u, or nproc in /etc/security/limits.conf",
        )
    };
    match room {
        _ if !room.allows(ranks * LEAST_THREADS) => Finding::bad(Area::Limits, what, todo),
        _ if !room.allows(ranks * THREADS_PER_RANK) => Finding::warning(Area::Limits, what, todo),
        _ => Finding::good(Area::Limits, what),
    }
}

/// Locked memory matters to network adapters that read and write it on their own.
pub(crate) fn locked_memory(limits: &ResourceLimits, infiniband: bool) -> Finding {
    let soft = limits.locked_memory.soft;
    let amount = match soft {
        Amount::Of(bytes) => words::bytes(bytes),
        Amount::Unlimited => "unlimited".to_owned(),
    };
    let what = format!("locked memory: {amount}");
    if infiniband && !soft.allows(ADAPTER_MEMORY) {
        let todo = "there is an InfiniBand adapter, which needs it: ulimit -l unlimited";
        return Finding::warning(Area::Limits, what, todo);
    }
    Finding::good(Area::Limits, what)
}

fn hard_or(hard: Amount, most: u64) -> u64 {
    match hard {
        Amount::Of(hard) => hard.min(most),
        Amount::Unlimited => most,
    }
}

/// More ranks than a host usually has.
const MANY: u64 = 128;
const LEAST_THREADS: u64 = 4;
/// A Python rank with its math libraries starts dozens.
const THREADS_PER_RANK: u64 = 64;
const ADAPTER_MEMORY: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use consort_sys::limits::{GroupProcesses, Limit};

    use super::*;
    use crate::doctor::finding::Verdict;

    fn limits(soft: Amount, hard: Amount, group: Option<GroupProcesses>) -> ResourceLimits {
        let limit = Limit { soft, hard };
        ResourceLimits {
            open_files: limit,
            processes: limit,
            locked_memory: limit,
            group_processes: group,
        }
    }

    fn same(amount: u64) -> ResourceLimits {
        limits(Amount::Of(amount), Amount::Of(amount), None)
    }

    #[test]
    fn open_files_are_judged_by_the_ranks_they_allow() {
        let verdict = |amount| open_files(&same(amount), 8).verdict;
        assert_eq!(verdict(1024), Verdict::Good);
        assert_eq!(verdict(256), Verdict::Warning);
        assert_eq!(verdict(64), Verdict::Bad);
        assert_eq!(
            open_files(&same(1024), 8).what,
            "open files: 1024, enough for 198 ranks on this host"
        );
        let usual = limits(Amount::Of(1024), Amount::Of(65_536), None);
        assert_eq!(
            open_files(&usual, 8).what,
            "open files: 1024 (65536 for the launcher), enough for 330 ranks on this host"
        );
        let unlimited = limits(Amount::Unlimited, Amount::Unlimited, None);
        assert_eq!(open_files(&unlimited, 8).verdict, Verdict::Good);
    }

    #[test]
    fn a_limit_that_can_be_raised_says_how_far() {
        let todo = |hard| open_files(&limits(Amount::Of(100), hard, None), 1).todo.unwrap();
        assert!(todo(Amount::Of(4096)).starts_with("ulimit -n 4096"));
        assert!(todo(Amount::Unlimited).starts_with("ulimit -n 65536"));
        assert!(todo(Amount::Of(100)).contains("limits.conf"));
    }

    #[test]
    fn processes_are_judged_by_the_tighter_limit() {
        let group = |left| Some(GroupProcesses { limit: 1000 + left, used: 1000 });
        let judge = |soft, left: Option<u64>| {
            processes(&limits(Amount::Of(soft), Amount::Of(soft), left.and_then(group)), 4)
        };
        assert_eq!(judge(10_000, None).verdict, Verdict::Good);
        assert_eq!(judge(100, None).verdict, Verdict::Warning);
        assert_eq!(judge(10, None).verdict, Verdict::Bad);
        let tight = judge(10_000, Some(3));
        assert_eq!(tight.verdict, Verdict::Bad);
        assert!(tight.what.contains("room for 3 more"), "{}", tight.what);
    }

    #[test]
    fn locked_memory_matters_only_with_an_adapter() {
        assert_eq!(locked_memory(&same(8 << 20), false).verdict, Verdict::Good);
        assert_eq!(locked_memory(&same(8 << 20), true).verdict, Verdict::Warning);
        assert_eq!(locked_memory(&same(u64::MAX), true).verdict, Verdict::Good);
    }
}
