//! A rank whose clock is a day ahead of the others'.
//!
//! The clock that can be shifted for one process alone is the monotonic one, by which all waiting is
//! measured. The wall clock is one for the machine, and the tests leave it alone.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use consort::Group;
use consort_testkit::Skip;
use rustix::time::{ClockId, clock_gettime};

use crate::deaths::kill_and_judge;
use crate::life::{Terms, live_in, met_in, since_1970};
use crate::scenario::{Scenario, faults};
use crate::stillness::{stop_and_judge, terms};
use crate::verdict::Trial;

faults! { [shm tcp mixed] [blocking asynchronous scoped] a_rank_is_killed_beside_one_of_another_time }
faults! { [shm tcp mixed] [blocking] a_rank_is_stopped_beside_one_of_another_time }

/// Nobody waits a day, or not at all.
fn a_rank_is_killed_beside_one_of_another_time(scenario: Scenario) -> Result<(), Skip> {
    kill_and_judge(begin(scenario, Terms::of(scenario.style()))?);
    Ok(())
}

/// A deadline is as long for the one as for the others.
fn a_rank_is_stopped_beside_one_of_another_time(scenario: Scenario) -> Result<(), Skip> {
    stop_and_judge(begin(scenario, terms(scenario.style()))?);
    Ok(())
}

/// Ranks at work, of which one was seen to live a day ahead.
fn begin(scenario: Scenario, terms: Terms) -> Result<Trial, Skip> {
    if !a_day_ahead("true").output().is_ok_and(|tried| tried.status.success()) {
        return Err(Skip::new("no time namespace: it takes root, `unshare` and Linux 6.3"));
    }
    let trial = Trial::begin(scenario, scenario.ranks(4)?, 4, |ctx| {
        if ctx.rank() == AHEAD && env::var_os(JUMPED).is_none() {
            jump();
        }
        fs::write(ctx.dir().join(format!("clock {}", ctx.rank())), seconds().to_string()).unwrap();
        let group = met_in(&ctx.dir(), ctx).init().unwrap();
        let story = live_in(ctx, &group, terms);
        assert_recorded_now(&group);
        story
    });
    for rank in 0..4 {
        let clock = fs::read_to_string(trial.job.dir().join(format!("clock {rank}"))).unwrap();
        let ahead = clock.parse::<i64>().unwrap() - seconds();
        assert_eq!(ahead > DAY / 2, rank == AHEAD, "rank {rank} is {ahead} s ahead");
    }
    Ok(trial)
}

/// Begins this process anew, in another time. It keeps its number, and its parent.
fn jump() -> ! {
    let program = env::current_exe().unwrap();
    let failed = a_day_ahead(&program).args(env::args_os().skip(1)).env(JUMPED, "yes").exec();
    panic!("{failed}");
}

fn a_day_ahead(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    let day = DAY.to_string();
    command.args(["--time", "--monotonic", &day, "--boottime", &day]).arg(program);
    command
}

/// What is written down of calls is told by the wall clock, which all ranks share.
fn assert_recorded_now(group: &Group) {
    let trace = group.trace().unwrap();
    let now = since_1970();
    assert!(trace.groups.iter().any(|group| group.calls.len() > 10), "{trace:?}");
    for call in trace.groups.iter().flat_map(|group| &group.calls) {
        let ago = now.checked_sub(Duration::from_nanos(call.began));
        assert!(ago.is_some_and(|ago| ago < LATELY), "call {} began {ago:?} ago", call.number);
    }
}

/// On this process's monotonic clock.
fn seconds() -> i64 {
    clock_gettime(ClockId::Monotonic).tv_sec
}

/// Not the one to which something is done.
const AHEAD: u32 = 1;
const DAY: i64 = 86_400;
const JUMPED: &str = "CONSORT_TEST_JUMPED";
/// Nothing in these tests is older.
const LATELY: Duration = Duration::from_secs(3_600);
