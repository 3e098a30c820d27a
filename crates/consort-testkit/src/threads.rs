//! The threads that a process has.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How many threads of this process have a name.
///
/// # Panics
/// When the system does not tell.
pub fn threads_called(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux tells of every process");
    // One may end while another looks.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|it| it.trim_end() == name).count()
}

/// Waits until so many threads of this process have a name: the system shows with some delay that one has begun or ended.
///
/// # Panics
/// When that takes longer than a test may wait.
#[track_caller]
pub fn await_threads(name: &str, count: usize) {
    let began = Instant::now();
    loop {
        let found = threads_called(name);
        if found == count {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{found} threads are called {name} instead of {count}");
        thread::sleep(Duration::from_millis(1));
    }
}

const LIMIT: Duration = Duration::from_secs(30);
