//! One child process: started, signalled, reaped.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

/// A child in a process group of its own. What it leaves in that group ends with it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    handle: Arc<OwnedFd>,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => panic!("cannot start {command:?}: {error}"),
        };
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .expect("an unreaped child has a process descriptor");
        Self { child, handle: Arc::new(handle), status: None }
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        if self.status.is_none() {
            let _ = self.has_become_zombie(WaitIdOptions::empty());
            // The zombie still holds its number, so this cannot reach a stranger's group.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.status = Some(self.child.wait().expect("a child can be waited for"));
        }
        self.status.expect("set above")
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_some() || self.has_become_zombie(WaitIdOptions::NOHANG) {
            return Some(self.wait());
        }
        None
    }

    /// Sends a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&*self.handle, signal);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A handle through which another thread can signal it, never a stranger.
    pub(crate) fn handle(&self) -> Arc<OwnedFd> {
        self.handle.clone()
    }

    /// The state letter that the kernel shows: `R` running, `S` asleep, `T` stopped, `Z` ended.
    pub(crate) fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        // The name stands in brackets before the state and may itself contain brackets.
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn has_become_zombie(&self, options: WaitIdOptions) -> bool {
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        matches!(retry_on_intr(|| waitid(id.clone(), options)), Ok(Some(_)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            self.wait();
        }
    }
}
