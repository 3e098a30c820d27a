//! Whether ranks may read each other's memory.
//!
//! Rules that restrict it leave a parent its children. Ranks are no relations of that kind; so a
//! child tries to read this process.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use consort_sys::reach::{Beacon, Reach, Sight};

/// Whether ranks may read each other's memory, and which rule says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Whether it was possible; not known if it could not be tried.
    pub(crate) allowed: Option<bool>,
    /// Yama's `ptrace_scope`, in kernels that have it.
    pub(crate) scope: Option<u32>,
}

/// What the child is told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    process: u32,
    address: u64,
    light: u64,
}

impl Sharing {
    pub(super) fn gather() -> Self {
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
        Self { allowed: try_it(), scope: scope.and_then(|scope| scope.trim().parse().ok()) }
    }
}

/// `consort __reach`: exit code 0 if this process can read what it is told to.
pub(crate) fn main(args: Args) -> ExitCode {
    let Args { process, address, light } = args;
    match Reach::try_out(process, Sight { address, light }) {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(REFUSED),
    }
}

fn try_it() -> Option<bool> {
    let beacon = Beacon::light().ok()?;
    let Sight { address, light } = beacon.sight();
    let status = Command::new("/proc/self/exe")
        .arg("__reach")
        .args([u64::from(std::process::id()), address, light].map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    match status.code()? {
        0 => Some(true),
        code if code == i32::from(REFUSED) => Some(false),
        _ => None,
    }
}

/// No code that a program ends with for another reason.
const REFUSED: u8 = 43;
