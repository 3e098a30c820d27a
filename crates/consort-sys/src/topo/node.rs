//! Memory nodes: which memory is near to which processors.

use super::CpuSet;
use crate::root::{Root, field};

/// A memory node and the processors next to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// The processors next to it; none for memory that stands alone.
    pub cpus: CpuSet,
    /// How much memory it has, if the kernel says.
    pub bytes: Option<u64>,
}

pub(super) fn read(root: Root<'_>) -> Vec<Node> {
    let directory = "sys/devices/system/node";
    let nodes = root.numbered(directory, "node").into_iter();
    nodes.filter_map(|id| read_one(root, id, &format!("{directory}/node{id}"))).collect()
}

fn read_one(root: Root<'_>, id: u32, directory: &str) -> Option<Node> {
    let cpus = CpuSet::parse(&root.text(format!("{directory}/cpulist"))?)?;
    let meminfo = root.text(format!("{directory}/meminfo"));
    Some(Node { id, cpus, bytes: meminfo.and_then(|text| parse_total(&text)) })
}

/// The `Node 0 MemTotal: 1234 kB` line.
fn parse_total(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| field(&line[line.find("MemTotal")?..], "MemTotal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn nodes_are_read_in_order_with_their_memory() {
        let machine = fake::machine(&[
            ("sys/devices/system/node/node1/cpulist", "2-3\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:  2048 kB\nNode 0 MemFree: 1 kB",
            ),
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/node3/meminfo", "no cpulist"),
            ("sys/devices/system/node/online", "0-2\n"),
        ]);
        let nodes = read(Root(machine.path()));
        let seen: Vec<_> =
            nodes.iter().map(|node| (node.id, node.cpus.to_string(), node.bytes)).collect();
        assert_eq!(
            seen,
            [(0, "0-1".into(), Some(2 << 20)), (1, "2-3".into(), None), (2, String::new(), None)]
        );
    }

    #[test]
    fn a_machine_without_nodes_has_none() {
        assert_eq!(read(Root(fake::machine(&[]).path())), []);
        assert_eq!(parse_total("Node 0 MemTotal: lots"), None);
    }
}
