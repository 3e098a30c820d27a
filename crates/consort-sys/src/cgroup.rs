//! Which control groups this process is in.
//!
//! A limit of any ancestor binds, so a reader needs the whole chain of directories from the
//! process's own group up to the mount. Version 1 has a tree for each controller, version 2 one
//! tree for all; both can be mounted at once, and then a controller is in exactly one of them.

use std::path::{Component, Path, PathBuf};

use crate::root::Root;

/// The groups of this process and where their files are.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    memberships: Vec<Membership>,
    mounts: Vec<Mount>,
}

/// The directories that govern this process for one controller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) version: Version,
    /// The process's own group first, the mount last.
    pub(crate) directories: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

impl Cgroups {
    pub(crate) fn read(root: Root<'_>) -> Self {
        let text = |path| root.text(path).unwrap_or_default();
        Self::parse(&text("proc/self/cgroup"), &text("proc/self/mountinfo"))
    }

    fn parse(cgroup: &str, mountinfo: &str) -> Self {
        Self {
            memberships: cgroup.lines().filter_map(Membership::parse).collect(),
            mounts: mountinfo.lines().filter_map(Mount::parse).collect(),
        }
    }

    /// The directories in which `controller` limits this process, if it is mounted anywhere.
    pub(crate) fn chain(&self, controller: &str) -> Option<Chain> {
        self.find(Version::V1, controller).or_else(|| self.find(Version::V2, controller))
    }

    fn find(&self, version: Version, controller: &str) -> Option<Chain> {
        let of_version = |tree: &Tree| match tree {
            Tree::V1(controllers) => {
                version == Version::V1 && controllers.iter().any(|name| name == controller)
            }
            Tree::V2 => version == Version::V2,
        };
        let own = self.memberships.iter().find(|membership| of_version(&membership.tree))?;
        // A container can see several mounts of one tree: the deepest one that holds the group
        // says most, and a later mount hides an earlier one.
        let mount = self
            .mounts
            .iter()
            .filter(|mount| of_version(&mount.tree))
            .max_by_key(|mount| mount.below(&own.path).map_or(0, |_| mount.root.len()))?;
        Some(Chain { version, directories: mount.chain_to(&own.path) })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Membership {
    tree: Tree,
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Tree {
    V1(Vec<String>),
    V2,
}

impl Membership {
    /// A line such as `4:memory:/jobs/7` or `0::/jobs/7`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (_hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let tree = match controllers {
            "" => Tree::V2,
            names => Tree::V1(names.split(',').map(str::to_owned).collect()),
        };
        path.starts_with('/').then(|| Self { tree, path: path.to_owned() })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    tree: Tree,
    /// The group that appears at the mount point.
    root: String,
    point: PathBuf,
}

impl Mount {
    /// A line such as `35 31 0:32 /jobs /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (file_system, _source, options) = (kind.next()?, kind.next()?, kind.next()?);
        let tree = match file_system {
            "cgroup" => Tree::V1(options.split(',').map(str::to_owned).collect()),
            "cgroup2" => Tree::V2,
            _ => return None,
        };
        Some(Self { tree, root: unescape(root), point: unescape(point).into() })
    }

    /// Where group `path` is below the mount point, unless it is elsewhere in the tree.
    fn below<'a>(&self, path: &'a str) -> Option<&'a Path> {
        let path = Path::new(path);
        let outside = path.components().any(|part| part == Component::ParentDir);
        if outside { None } else { path.strip_prefix(&self.root).ok() }
    }

    /// From the group up to the mount. When the group is not below the mount, as in containers
    /// that show a process the host's name of its group, the mount itself is the best we have.
    fn chain_to(&self, path: &str) -> Vec<PathBuf> {
        let below = self.below(path).unwrap_or(Path::new(""));
        below.ancestors().map(|part| self.point.iter().chain(part).collect()).collect()
    }
}

/// The kernel writes spaces and the like in paths as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(cgroup: &str, mountinfo: &str, controller: &str) -> Vec<String> {
        let chain = Cgroups::parse(cgroup, mountinfo).chain(controller);
        let paths = chain.map(|chain| chain.directories).unwrap_or_default();
        paths.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    const V2: &str =
        "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      35 30 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 30 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn version_two_walks_from_the_own_group_to_the_mount() {
        assert_eq!(
            directories("0::/user.slice/job-7", V2, "cpu"),
            ["/sys/fs/cgroup/user.slice/job-7", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
    }

    #[test]
    fn version_one_finds_the_tree_of_the_controller() {
        let own = "5:cpu,cpuacct:/a\n4:memory:/b/c";
        assert_eq!(
            directories(own, V1, "cpu"),
            ["/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/cpu,cpuacct"]
        );
        assert_eq!(directories(own, V1, "memory").len(), 3);
    }

    #[test]
    fn in_a_mixed_system_a_controller_is_where_it_is_mounted() {
        let own = "4:memory:/m\n0::/u";
        let mounts = format!("{V1}\n37 30 0:34 / /sys/fs/cgroup/unified rw - cgroup2 none rw");
        let cgroups = Cgroups::parse(own, &mounts);
        assert_eq!(cgroups.chain("memory").unwrap().version, Version::V1);
        assert_eq!(cgroups.chain("cpu").unwrap().version, Version::V2);
    }

    #[test]
    fn a_container_that_mounts_its_own_group_reads_the_mount() {
        let mount = "9 8 0:1 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(directories("0::/docker/ab", mount, "cpu"), ["/sys/fs/cgroup"]);
        assert_eq!(
            directories("0::/docker/ab/x", mount, "cpu"),
            ["/sys/fs/cgroup/x", "/sys/fs/cgroup"]
        );
    }

    #[test]
    fn a_group_outside_the_mount_falls_back_to_the_mount() {
        let mount = "9 8 0:1 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(directories("0::/elsewhere", mount, "cpu"), ["/sys/fs/cgroup"]);
        assert_eq!(directories("0::/../../sibling", V2, "cpu"), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn escaped_spaces_in_a_mount_point_are_read() {
        let mount = r"9 8 0:1 / /my\040groups ro - cgroup2 cgroup rw";
        assert_eq!(directories("0::/", mount, "cpu"), ["/my groups"]);
        assert_eq!(unescape(r"end\04"), r"end\04");
        assert_eq!(unescape(r"\134"), r"\");
    }

    #[test]
    fn malformed_and_missing_files_mean_no_chain() {
        for (own, mounts) in
            [("", V2), ("0::/a", ""), ("nonsense", V2), ("0::a", V2), ("0::/", "x - y")]
        {
            assert_eq!(Cgroups::parse(own, mounts).chain("cpu"), None, "{own:?} {mounts:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(own in ".{0,80}", mounts in ".{0,80}") {
            Cgroups::parse(&own, &mounts).chain("cpu");
            unescape(&mounts);
        }
    }
}
