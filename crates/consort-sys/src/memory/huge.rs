//! Large pages.

use crate::root::Root;

/// Large pages: fewer page faults for large buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// `always`, `madvise` or `never`: when the kernel uses them unasked.
    pub transparent: Option<String>,
    /// The same for memory that processes share: `always`, `within_size`, `advise`, `never`, or for
    /// all of the machine `deny` or `force`.
    pub shared: Option<String>,
    /// Pages set aside, for each page size, smallest first.
    pub pools: Vec<HugePool>,
}

/// Large pages of one size that were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePool {
    /// The size of a page in bytes.
    pub page: u64,
    /// How many there are.
    pub pages: u64,
    /// How many nobody uses.
    pub free: u64,
}

pub(super) fn read(root: Root<'_>) -> HugePages {
    let choice = |which: &str| {
        root.text(format!("{TRANSPARENT}/{which}")).and_then(|text| parse_choice(&text))
    };
    let sizes = root.names(POOLS).into_iter();
    let mut pools: Vec<_> = sizes.filter_map(|name| read_pool(root, &name)).collect();
    pools.sort_by_key(|pool| pool.page);
    HugePages { transparent: choice("enabled"), shared: choice("shmem_enabled"), pools }
}

fn read_pool(root: Root<'_>, name: &str) -> Option<HugePool> {
    Some(HugePool {
        page: parse_page_size(name)?,
        pages: root.number(format!("{POOLS}/{name}/nr_hugepages"))?,
        free: root.number(format!("{POOLS}/{name}/free_hugepages"))?,
    })
}

/// The chosen word of `always [madvise] never`.
fn parse_choice(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// `hugepages-2048kB`.
fn parse_page_size(name: &str) -> Option<u64> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";
const POOLS: &str = "sys/kernel/mm/hugepages";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn huge_pages_are_read_for_every_size() {
        let machine = fake::machine(&[
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            (
                "sys/kernel/mm/transparent_hugepage/shmem_enabled",
                "always within_size advise [never] deny force\n",
            ),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10"),
            ("sys/kernel/mm/hugepages/readme", "not a pool"),
        ]);
        let huge = read(Root(machine.path()));
        assert_eq!(huge.transparent.as_deref(), Some("madvise"));
        assert_eq!(huge.shared.as_deref(), Some("never"));
        assert_eq!(huge.pools[0], HugePool { page: 2 << 20, pages: 16, free: 10 });
        assert_eq!(huge.pools[1].page, 1 << 30);
    }

    #[test]
    fn nonsense_is_left_out() {
        assert_eq!(parse_choice("always madvise never"), None);
        assert_eq!(parse_page_size("hugepages-manykB"), None);
        assert_eq!(read(Root(fake::machine(&[]).path())), HugePages::default());
    }
}
