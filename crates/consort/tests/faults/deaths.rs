//! A rank's process ends in the middle of its work.

use std::time::Duration;
use std::{fs, process, thread};

use consort_testkit::{Context, ControlGroup, Outcome, Skip};
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};

use crate::life::{Story, Terms, live};
use crate::remains::{await_end, is_there};
use crate::scenario::{Scenario, faults};
use crate::verdict::Trial;

faults! { [shm tcp mixed] [blocking asynchronous scoped]
    a_rank_is_killed
    a_rank_exits
    a_rank_has_a_segmentation_fault
    a_rank_has_no_more_memory
}

fn a_rank_is_killed(scenario: Scenario) -> Result<(), Skip> {
    let terms = Terms::of(scenario.style());
    let trial = Trial::begin(scenario, scenario.ranks(WORLD)?, WORLD, |ctx| live(ctx, terms));
    kill_and_judge(trial);
    Ok(())
}

/// The victim is killed, and the others go on.
pub(crate) fn kill_and_judge(mut trial: Trial) {
    trial.harm(|job| {
        job.kill(VICTIM);
        assert!(!is_there(job.pid(VICTIM)));
    });
    assert_death(trial, &Outcome::Signalled(Signal::KILL.as_raw()));
}

fn a_rank_exits(scenario: Scenario) -> Result<(), Skip> {
    let terms = Terms::of(scenario.style());
    let ranks = scenario.ranks(WORLD)?;
    let mut trial = Trial::begin(scenario, ranks, WORLD, |ctx| {
        live_until_told(ctx, terms, |()| process::exit(3))
    });
    trial.harm(|job| {
        job.tell(NOW, &());
        await_end(job.pid(VICTIM));
    });
    assert_death(trial, &Outcome::Exited(3));
    Ok(())
}

fn a_rank_has_a_segmentation_fault(scenario: Scenario) -> Result<(), Skip> {
    let terms = Terms::of(scenario.style());
    let ranks = scenario.ranks(WORLD)?;
    let mut trial = Trial::begin(scenario, ranks, WORLD, |ctx| {
        live_until_told(ctx, terms, |()| {
            // What it would leave is not wanted.
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
            // The first only takes away the handler that looks for the end of the stack.
            loop {
                kill_process(getpid(), Signal::SEGV).unwrap();
            }
        })
    });
    trial.harm(|job| {
        job.tell(NOW, &());
        await_end(job.pid(VICTIM));
    });
    assert_death(trial, &Outcome::Signalled(Signal::SEGV.as_raw()));
    Ok(())
}

fn a_rank_has_no_more_memory(scenario: Scenario) -> Result<(), Skip> {
    let terms = Terms::of(scenario.style());
    let ranks = scenario.ranks(WORLD)?;
    let mut trial = Trial::begin(scenario, ranks, WORLD, |ctx| {
        live_until_told(ctx, terms, |is_limited: bool| {
            if !is_limited {
                process::exit(0);
            }
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 20]);
            }
        })
    });
    let limited = ControlGroup::with_memory(LITTLE);
    let killed = || limited.as_ref().map_or(0, ControlGroup::killed_for_memory);
    assert_eq!(killed(), 0);
    trial.harm(|job| {
        if let Ok(limited) = &limited {
            fs::write(limited.path().join("cgroup.procs"), job.pid(VICTIM).to_string()).unwrap();
        }
        job.tell(NOW, &limited.is_ok());
        await_end(job.pid(VICTIM));
    });
    if let Err(reason) = limited {
        trial.end();
        return Err(Skip::new(reason));
    }
    assert_eq!(killed(), 1, "the system has killed it");
    assert_death(trial, &Outcome::Signalled(Signal::KILL.as_raw()));
    Ok(())
}

/// Lives; the victim with another thread that does it harm when it is told to, and how.
fn live_until_told<M>(ctx: &Context, terms: Terms, harm: impl FnOnce(M) + Send) -> Story
where
    M: serde::de::DeserializeOwned,
{
    thread::scope(|scope| {
        if ctx.rank() == VICTIM {
            scope.spawn(|| harm(ctx.told(NOW)));
        }
        live(ctx, terms)
    })
}

/// The others name the victim, soon, and go on without it.
fn assert_death(trial: Trial, outcome: &Outcome<Story>) {
    let end = trial.end();
    end.came_to(VICTIM, outcome)
        .were_told(&OTHERS, "PeerLost", &[VICTIM])
        .heard_within(&OTHERS, Duration::ZERO, SOON)
        .went_on(&OTHERS);
}

const WORLD: u32 = 4;
const VICTIM: u32 = 2;
const OTHERS: [u32; 3] = [0, 1, 3];
const NOW: &str = "now";
/// Less than a rank takes in the end.
const LITTLE: u64 = 32 << 20;
/// The end of a process is known within milliseconds, but the cores may be somebody else's.
const SOON: Duration = Duration::from_secs(15);
