//! A launcher under test, with everything it starts.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A running `consort run`. It works in a directory of its own, whose name in the environment
/// marks every process that belongs to it. Dropping it kills what is left.
pub(crate) struct Launch {
    process: Child,
    stdout: Collected,
    stderr: Collected,
    directory: TempDir,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its exit code; 128 + the signal if a signal ended it.
    pub(crate) code: i32,
    /// What it wrote to standard output.
    pub(crate) stdout: String,
    /// What it wrote to standard error.
    pub(crate) stderr: String,
}

impl Launch {
    /// Starts `consort run ARGS`.
    pub(crate) fn new(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.arg("run").args(args);
        Self::command(command)
    }

    /// Starts ranks that run a shell script.
    pub(crate) fn script(options: &[&str], script: &str) -> Self {
        Self::new([options, &["--", "sh", "-c", script]].concat())
    }

    /// Starts a command that becomes a launcher.
    pub(crate) fn command(mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = command
            .current_dir(directory.path())
            .env(MARKER, directory.path())
            .env("CONSORT_TRACE_DIR", directory.path().join(RECORDS))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Collected::from(process.stdout.take().unwrap());
        let stderr = Collected::from(process.stderr.take().unwrap());
        Self { process, stdout, stderr, directory }
    }

    /// Where it works.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Creates an empty file there, which ranks may be waiting for.
    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.directory().join(name), "").unwrap();
    }

    /// The launcher's own process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Sends a signal to the launcher alone.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until the ranks have written `count` lines that contain `text`.
    pub(crate) fn await_lines(&self, count: usize, text: &str) {
        self.stdout.await_lines(count, text);
    }

    /// Waits until the launcher has said something that contains `text`.
    pub(crate) fn await_notice(&self, text: &str) {
        self.await_notices(1, text);
    }

    /// The same, several times.
    pub(crate) fn await_notices(&self, count: usize, text: &str) {
        self.stderr.await_lines(count, text);
    }

    /// What the launcher has said so far.
    pub(crate) fn notices(&self) -> String {
        self.stderr.text()
    }

    /// Every living process of this launch, the launcher among them.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mark = format!("{MARKER}={}", self.directory.path().display());
        let has_mark = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid()));
            environment
                .is_ok_and(|text| text.split(|&byte| byte == 0).any(|v| v == mark.as_bytes()))
        };
        let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let pids = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
        pids.filter(has_mark).collect()
    }

    /// Waits until no process of this launch is left.
    pub(crate) fn await_nothing_left(&self) {
        wait_until("every process to be gone", || self.processes().is_empty().then_some(()));
    }

    /// Its processes that run the program of this name.
    pub(crate) fn processes_called(&self, name: &str) -> Vec<Pid> {
        let is_called = |pid: &Pid| {
            let found = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()));
            found.is_ok_and(|found| found.trim_end() == name)
        };
        self.processes().into_iter().filter(is_called).collect()
    }

    /// Waits for the launcher's end, and wants nothing of the job to be left at that moment.
    pub(crate) fn finish_cleanly(mut self) -> Finished {
        let finished = self.wait();
        assert_eq!(self.processes(), [], "processes are left behind; {finished:?}");
        finished
    }

    /// Waits for the launcher's end.
    pub(crate) fn wait(&mut self) -> Finished {
        let status = wait_until("the launcher to end", || self.process.try_wait().unwrap());
        // What a rank has left behind on purpose may hold the streams; the launcher does not.
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        Finished { code, stdout: self.stdout.end(), stderr: self.stderr.end() }
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
        if thread::panicking() {
            eprintln!("{}{}", self.stdout.text(), self.stderr.text());
        }
    }
}

/// Whether this process is a part of a launch.
pub(crate) fn is_launched() -> bool {
    env::var_os(MARKER).is_some()
}

/// Calls `condition` until it gives something, for a minute at most.
pub(crate) fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < limit, "waited a minute for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of a text in order of the alphabet: ranks take turns as they like.
pub(crate) fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn from(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let collected = bytes.clone();
        let reader = thread::spawn(move || {
            let mut piece = [0; 65536];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                collected.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn await_lines(&self, count: usize, text: &str) {
        let enough = || {
            let lines = self.text();
            (lines.lines().filter(|line| line.contains(text)).count() >= count).then_some(())
        };
        wait_until(&format!("{count} lines with {text:?}"), enough);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn end(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}

/// Where its ranks leave their records, in its directory.
pub(crate) const RECORDS: &str = "records";

/// Not one of the variables that begin with `CONSORT_`: programs that meet refuse those they do not
/// know.
const MARKER: &str = "TEST_DIRECTORY";
