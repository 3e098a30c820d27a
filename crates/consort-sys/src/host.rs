//! Which machine this is.
//!
//! Two ranks can share memory when they run under one kernel and can hand each other file
//! descriptors. The kernel is known by its boot identity: hostnames repeat, and images are copied
//! with their machine identity. The hand-over goes by process numbers and by sockets, so the two
//! must also be in the same process and network namespaces. Two containers on one machine are
//! therefore two hosts, unless they were started to share both.

use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::root::Root;

/// The identity of a host: equal for two processes exactly when they can share memory.
///
/// It can be sent to other processes and compared there. It is shown as the host's name, which
/// takes no part in the comparison.
///
/// ```
/// use consort_sys::host::HostId;
///
/// let here = HostId::here()?;
/// assert_eq!(here, HostId::here()?);
/// println!("running on {here}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostId {
    id: String,
    name: String,
}

impl HostId {
    /// The host of this process.
    ///
    /// # Errors
    /// When `/proc` does not say which it is.
    pub fn here() -> io::Result<Self> {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self::under(Path::new("/"), name)
    }

    /// The host described by the files under `root`.
    ///
    /// # Errors
    /// When a file is missing.
    pub fn under(root: &Path, name: String) -> io::Result<Self> {
        let root = Root(root);
        let boot = known(&root, BOOT_ID, |path| fs::read_to_string(path))?;
        let mut id = boot.trim().to_owned();
        for namespace in NAMESPACES {
            let link = known(&root, namespace, |path| fs::read_link(path))?;
            id.push('+');
            id.push_str(&link.to_string_lossy());
        }
        Ok(Self { id, name })
    }

    /// This host, as far as some of its processes are concerned that are kept from the others and so
    /// cannot share memory with them: another host. The number tells them from more such.
    #[must_use]
    pub fn apart(&self, number: u32) -> Self {
        Self { id: format!("{}+apart:{number}", self.id), name: self.name.clone() }
    }

    /// The identity as text: equal exactly for those that are equal.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The host's name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for HostId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for HostId {}

impl Hash for HostId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

fn known<T>(
    root: &Root<'_>,
    path: &str,
    read: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    read(&root.path(path)).map_err(|error| {
        let text =
            format!("cannot tell this host from others: /{path}: {error}; is /proc mounted?");
        io::Error::new(error.kind(), text)
    })
}

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const NAMESPACES: [&str; 2] = ["proc/self/ns/pid", "proc/self/ns/net"];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::root::fake;

    fn host(boot: &str, pid: &str, net: &str, name: &str) -> HostId {
        let machine = fake::machine(&[(BOOT_ID, boot), ("proc/self/ns/uts", "")]);
        symlink(pid, machine.path().join(NAMESPACES[0])).unwrap();
        symlink(net, machine.path().join(NAMESPACES[1])).unwrap();
        HostId::under(machine.path(), name.into()).unwrap()
    }

    #[test]
    fn one_kernel_and_the_same_namespaces_are_one_host_whatever_its_name() {
        assert_eq!(host("b\n", "pid:[1]", "net:[1]", "x"), host("b\n", "pid:[1]", "net:[1]", "y"));
    }

    #[test]
    fn another_boot_or_namespace_is_another_host() {
        let one = host("b", "pid:[1]", "net:[1]", "x");
        for other in [
            host("c", "pid:[1]", "net:[1]", "x"),
            host("b", "pid:[2]", "net:[1]", "x"),
            host("b", "pid:[1]", "net:[2]", "x"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn processes_that_are_kept_apart_are_on_other_hosts() {
        let here = host("b", "pid:[1]", "net:[1]", "x");
        assert_ne!(here.apart(1), here);
        assert_ne!(here.apart(1), here.apart(2));
        assert_eq!((here.apart(1), here.apart(1).name()), (here.apart(1), "x"));
    }

    #[test]
    fn it_survives_the_journey_to_another_process() {
        let here = HostId::here().unwrap();
        let sent = serde_json::to_string(&here).unwrap();
        let come: HostId = serde_json::from_str(&sent).unwrap();
        assert_eq!((&come, come.name()), (&here, here.name()));
    }

    #[test]
    fn a_missing_file_is_named_in_the_error() {
        let machine = fake::machine(&[(BOOT_ID, "b")]);
        let error = HostId::under(machine.path(), "x".into()).unwrap_err();
        assert!(error.to_string().contains("/proc/self/ns/pid"), "{error}");
        let error = HostId::under(fake::machine(&[]).path(), "x".into()).unwrap_err();
        assert!(error.to_string().contains("boot_id"), "{error}");
    }
}
