//! A real MPI to test with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::Skip;

/// The MPI that `tools/mpi` installs.
#[derive(Clone, Debug)]
pub struct Mpi {
    folder: PathBuf,
}

impl Mpi {
    /// Installs it, unless that was done before.
    ///
    /// # Errors
    /// Where it is not to be had: there is no Python, or no way to where its packages are.
    ///
    /// # Panics
    /// The same where the tests decide.
    pub fn find() -> Result<Self, Skip> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = root.join("target/venv-mpi");
        let made = Command::new(root.join("tools/mpi")).output();
        let made = made.map_err(|error| Skip::new(format!("tools/mpi cannot be run: {error}")))?;
        if made.status.success() {
            let folder = folder.canonicalize().expect("it was made just now");
            return Ok(Self { folder });
        }
        let words = String::from_utf8_lossy(&made.stderr);
        assert!(std::env::var_os("CI").is_none(), "MPI cannot be installed: {words}");
        let last = words.trim_end().lines().next_back().unwrap_or("it does not say why");
        Err(Skip::new(format!("MPI cannot be installed: {last}")))
    }

    /// Its library.
    pub fn library(&self) -> PathBuf {
        self.folder.join("lib/libmpi_abi.so.1")
    }

    /// Its launcher, `mpiexec`, to be given arguments.
    ///
    /// Programs that do not come to MPI's end leave named memory behind, as many tests have them do. So they get a
    /// folder for that of their own, which goes with the last of them; where the system does not allow that, they
    /// leave it.
    pub fn launcher(&self) -> Command {
        let launcher = self.folder.join("bin/mpiexec");
        if !can_have_a_folder() {
            return Command::new(launcher);
        }
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(launcher);
        command
    }

    /// A command by which its launcher starts a program, with these words, so many times on this host. The death of
    /// one is left to the others to notice. All of them give their core away when they wait: there may be fewer cores
    /// than ranks.
    pub fn command(
        &self,
        world: u32,
        program: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = self.launcher();
        command.args(["-disable-auto-cleanup", "-n", &world.to_string()]).args(program);
        command.env("CONSORT_MPI_LIBRARY", self.library());
        command.env("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1");
        command
    }
}

/// Whether this process may see another folder in place of the system's for named memory.
fn can_have_a_folder() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])
        .stderr(std::process::Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}
