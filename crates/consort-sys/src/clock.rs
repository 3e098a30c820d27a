//! Whether the clocks can be relied on.
//!
//! Deadlines run on the monotonic clock, so consort works with a wrong time of day. But logs and
//! traces of several hosts can only be laid side by side when their clocks agree.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_getres};

use crate::root::Root;

/// The clocks of this machine.
///
/// ```
/// use consort_sys::clock::Clock;
///
/// let clock = Clock::here();
/// println!("{:?} steps, {:?} a look, {:?}", clock.resolution, clock.look, clock.agreement);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The smallest step of the monotonic clock.
    pub resolution: Duration,
    /// How long one look at the monotonic clock takes.
    pub look: Duration,
    /// The hardware behind it: `tsc`, `kvm-clock`, `hpet` …
    pub source: Option<String>,
    /// Whether the time of day is kept in step with the world's.
    pub agreement: Agreement,
}

/// Whether the time of day is kept in step with the world's.
///
/// The kernel knows, but tells only through a call that is not available to us; so this looks for
/// whoever would be doing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The time service says that it is in step.
    InStep {
        /// Who says so.
        by: String,
    },
    /// A time service runs; whether it has reached its servers is not known.
    Served {
        /// Its name.
        by: String,
    },
    /// No time service was seen. The host of a container or virtual machine may still do it.
    Unknown,
}

impl Clock {
    /// The clocks of the machine this process runs on.
    pub fn here() -> Self {
        let resolution = clock_getres(ClockId::Monotonic);
        Self {
            resolution: Duration::new(
                resolution.tv_sec.unsigned_abs(),
                u32::try_from(resolution.tv_nsec).unwrap_or_default(),
            ),
            look: time_one_look(),
            source: source_under(Path::new("/")),
            agreement: Agreement::under(Path::new("/")),
        }
    }
}

impl Agreement {
    /// What the files under `root` say.
    pub fn under(root: &Path) -> Self {
        let root = Root(root);
        if root.path("run/systemd/timesync/synchronized").exists() {
            return Self::InStep { by: "systemd-timesyncd".into() };
        }
        let processes = root.numbered("proc", "");
        let mut names = processes.iter().filter_map(|id| root.text(format!("proc/{id}/comm")));
        match names.find(|name| TIME_SERVICES.contains(&name.as_str())) {
            Some(by) => Self::Served { by },
            None => Self::Unknown,
        }
    }
}

/// The median of a few, since the machine may be busy.
fn time_one_look() -> Duration {
    let mut samples: Vec<Duration> = (0..SAMPLES)
        .map(|_| {
            let started = Instant::now();
            (0..LOOKS).for_each(|_| {
                std::hint::black_box(Instant::now());
            });
            started.elapsed() / LOOKS
        })
        .collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn source_under(root: &Path) -> Option<String> {
    Root(root).text("sys/devices/system/clocksource/clocksource0/current_clocksource")
}

const SAMPLES: usize = 9;
const LOOKS: u32 = 200;
/// As the kernel names processes: at most fifteen letters.
const TIME_SERVICES: [&str; 6] =
    ["chronyd", "ntpd", "ntpd-rs", "ptp4l", "phc2sys", "systemd-timesyn"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn a_service_that_says_so_is_believed() {
        let machine = fake::machine(&[("run/systemd/timesync/synchronized", "")]);
        assert_eq!(
            Agreement::under(machine.path()),
            Agreement::InStep { by: "systemd-timesyncd".into() }
        );
    }

    #[test]
    fn a_running_service_is_named() {
        let machine = fake::machine(&[("proc/1/comm", "init\n"), ("proc/77/comm", "chronyd\n")]);
        assert_eq!(Agreement::under(machine.path()), Agreement::Served { by: "chronyd".into() });
    }

    #[test]
    fn without_a_service_it_is_unknown() {
        let machine = fake::machine(&[("proc/1/comm", "sh\n"), ("proc/self/comm", "chronyd\n")]);
        assert_eq!(Agreement::under(machine.path()), Agreement::Unknown);
    }

    #[test]
    fn this_machine_has_a_clock_that_moves() {
        let clock = Clock::here();
        assert!(clock.resolution > Duration::ZERO);
        assert!(clock.look < Duration::from_millis(10), "{:?}", clock.look);
    }
}
