//! What ranks could leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use consort_testkit::{Job, names_in_shared_memory};

/// What the ranks of a job have while they run.
#[derive(Debug)]
pub(crate) struct Remains {
    processes: Vec<u32>,
    /// The numbers of their sockets, which no others get.
    sockets: BTreeSet<String>,
    dir: PathBuf,
}

impl Remains {
    /// Of the first so many ranks, at this moment.
    pub(crate) fn of<T>(job: &Job<T>, ranks: u32) -> Self {
        let processes: Vec<u32> = (0..ranks).map(|rank| job.pid(rank)).collect();
        let sockets = processes.iter().flat_map(|&process| sockets_of(process)).collect();
        Self { processes, sockets, dir: job.dir() }
    }

    /// The ranks' own, in their order.
    pub(crate) fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// There is nothing left of them, and of the hosts they were on, once the job is over.
    pub(crate) fn are_none<T>(self, job: Job<T>) {
        drop(job);
        // What ranks have started is reaped by init, in its time.
        let begun = Instant::now();
        while let Some(left) = self.find() {
            assert!(begun.elapsed() < SOON, "{left} is left");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Something that is still there.
    fn find(&self) -> Option<String> {
        let process = self.processes.iter().find(|&&it| is_there(it));
        let process = process.map(|it| format!("process {it}")).or_else(|| self.find_child());
        let socket = || {
            let listed = LISTS.into_iter().flat_map(|(list, column)| {
                let list = fs::read_to_string(list).unwrap_or_default();
                let number = |line: &str| Some(line.split_whitespace().nth(column)?.to_owned());
                list.lines().filter_map(number).collect::<Vec<_>>()
            });
            let mut ours = listed.filter(|number| self.sockets.contains(number));
            ours.next().map(|number| format!("socket {number}"))
        };
        let own = format!("consort-{}-", std::process::id());
        process
            .or_else(socket)
            .or_else(|| entry(Path::new("/run/netns"), |name| name.starts_with(&own)))
            .or_else(|| names_in_shared_memory().pop())
            .or_else(|| self.dir.exists().then(|| self.dir.display().to_string()))
    }

    /// A process that a rank has started, by what it has inherited.
    fn find_child(&self) -> Option<String> {
        let job = self.dir.parent()?.to_str()?;
        fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains(job);
            is_ours.then(|| format!("{}, a child of a rank,", entry.path().display()))
        })
    }
}

/// Whether a process runs; one that has ended and is not yet reaped does not.
pub(crate) fn is_there(process: u32) -> bool {
    state(process).is_some_and(|state| state != 'Z')
}

/// What the kernel shows of a process: `S` asleep, `T` stopped, `Z` ended, and others.
pub(crate) fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a process has ended by itself.
pub(crate) fn await_end(process: u32) {
    let begun = Instant::now();
    while is_there(process) {
        assert!(begun.elapsed() < SOON, "process {process} does not end");
        thread::sleep(Duration::from_millis(1));
    }
}

fn sockets_of(process: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let number = |target: PathBuf| {
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    targets.filter_map(number).collect()
}

fn entry(folder: &Path, is_ours: impl Fn(&str) -> bool) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| is_ours(name)).map(|name| folder.join(name).display().to_string())
}

/// Where the kernel lists sockets, and in which column their numbers are.
const LISTS: [(&str, usize); 3] =
    [("/proc/net/tcp", 9), ("/proc/net/tcp6", 9), ("/proc/net/unix", 6)];
const SOON: Duration = Duration::from_secs(20);
