//! Memory, shared memory, large pages.

use consort_sys::memory::Memory;

use crate::doctor::finding::{Area, Finding};
use crate::doctor::words::bytes;

/// How much memory a job can have.
pub(crate) fn usable(memory: &Memory) -> Finding {
    let limited = memory.group.filter(|group| group.limit < memory.total);
    let of = match limited {
        Some(group) => format!(
            "the {} that the control group allows on a machine with {}",
            bytes(group.limit),
            bytes(memory.total)
        ),
        None => bytes(memory.total),
    };
    let what = format!("{} usable of {of}", bytes(memory.usable()));
    let todo = match limited {
        Some(_) => {
            "a process of a group over its limit is killed: raise the container's memory limit"
        }
        None => "end what uses the memory, or take fewer ranks or smaller buffers",
    };
    match memory.usable() {
        left if left < HOPELESS => Finding::bad(Area::Memory, what, todo),
        left if left < SCARCE => Finding::warning(Area::Memory, what, todo),
        _ => Finding::good(Area::Memory, what),
    }
}

/// `/dev/shm`. Consort leaves no files there, but data loaders do.
pub(crate) fn shared(memory: &Memory) -> Finding {
    let todo = "containers get 64 MiB unless told otherwise: docker run --shm-size=2g, or --ipc=host; \
                consort does without, but PyTorch's data loaders do not";
    let Some(space) = memory.shm else {
        return Finding::warning(Area::Memory, "there is no /dev/shm", todo);
    };
    let what = format!("{} free of {} in /dev/shm", bytes(space.free), bytes(space.total));
    if space.free < SMALL_SHM {
        Finding::warning(Area::Memory, what, todo)
    } else {
        Finding::good(Area::Memory, what)
    }
}

/// Large pages make large buffers cheaper to touch.
pub(crate) fn huge_pages(memory: &Memory) -> Finding {
    let mut what = match memory.huge.transparent.as_deref() {
        Some(when) => format!("transparent huge pages: {when}"),
        None => "transparent huge pages: not in this kernel".to_owned(),
    };
    if let Some(when) = &memory.huge.shared {
        what += &format!(", for shared memory: {when}");
    }
    for pool in memory.huge.pools.iter().filter(|pool| pool.pages > 0) {
        what += &format!("; {} of {} pages of {} free", pool.free, pool.pages, bytes(pool.page));
    }
    match (memory.huge.transparent.as_deref(), memory.huge.shared.as_deref()) {
        (Some("never"), _) => {
            let todo = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root): \
                        large buffers then take fewer page faults";
            Finding::warning(Area::Memory, what, todo)
        }
        (_, Some("never")) => {
            let todo = "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root): \
                        consort then uses them";
            Finding::note(Area::Memory, what, todo)
        }
        _ => Finding::good(Area::Memory, what),
    }
}

const HOPELESS: u64 = 64 << 20;
const SCARCE: u64 = 1 << 30;
const SMALL_SHM: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use consort_sys::memory::{GroupMemory, HugePages, HugePool, Space};

    use super::*;
    use crate::doctor::finding::Verdict;

    fn machine(available: u64, group: Option<(u64, u64)>) -> Memory {
        let group = group.map(|(limit, used)| GroupMemory { limit, used });
        Memory { total: 16 << 30, available, group, ..Memory::default() }
    }

    #[test]
    fn memory_is_judged_by_what_is_left() {
        let good = usable(&machine(8 << 30, None));
        assert_eq!((good.verdict, good.what.as_str()), (Verdict::Good, "8 GiB usable of 16 GiB"));
        assert_eq!(usable(&machine(512 << 20, None)).verdict, Verdict::Warning);
        assert_eq!(usable(&machine(1 << 20, None)).verdict, Verdict::Bad);
    }

    #[test]
    fn a_limit_of_the_control_group_is_told_if_it_binds() {
        let limited = usable(&machine(8 << 30, Some((2 << 30, 3 << 29))));
        assert_eq!(limited.verdict, Verdict::Warning);
        assert!(limited.what.starts_with("512 MiB usable of the 2 GiB"), "{}", limited.what);
        let roomy = usable(&machine(8 << 30, Some((64 << 30, 0))));
        assert_eq!(roomy.what, "8 GiB usable of 16 GiB");
    }

    #[test]
    fn a_small_or_missing_shm_is_a_warning() {
        let with = |free| {
            let shm = Some(Space { total: free, free, no_exec: false });
            shared(&Memory { shm, ..Memory::default() }).verdict
        };
        assert_eq!(with(64 << 20), Verdict::Warning);
        assert_eq!(with(8 << 30), Verdict::Good);
        assert_eq!(shared(&Memory::default()).verdict, Verdict::Warning);
    }

    #[test]
    fn huge_pages_switched_off_are_a_warning() {
        let with = |transparent: Option<&str>, pages| {
            let pools = vec![HugePool { page: 2 << 20, pages, free: 3 }];
            let shared = Some(if pages == 0 { "never" } else { "advise" }.to_owned());
            let huge = HugePages { transparent: transparent.map(Into::into), shared, pools };
            huge_pages(&Memory { huge, ..Memory::default() })
        };
        assert_eq!(with(Some("never"), 0).verdict, Verdict::Warning);
        let unshared = with(Some("always"), 0);
        assert_eq!(unshared.verdict, Verdict::Note);
        assert!(unshared.todo.unwrap().contains("shmem_enabled"));
        let set_aside = with(Some("madvise"), 4);
        assert_eq!(set_aside.verdict, Verdict::Good);
        assert_eq!(
            set_aside.what,
            "transparent huge pages: madvise, for shared memory: advise; 3 of 4 pages of 2 MiB free"
        );
    }
}
