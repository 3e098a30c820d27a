//! `consort __bench_ddp_rank`: one of our own ranks, which trains as it is told to.
//!
//! Its standard input has one line that says who it is, one with a shape, and then a number of steps a
//! line; it answers each with what it has timed.

use std::error::Error;
use std::process::ExitCode;

use consort::Group;
use rustix::time::{ClockId, clock_gettime};

use super::super::asker::say;
use super::super::seat;
use super::super::timing::now;
use super::learner::Learner;
use super::shape::Shape;
use super::share::{Pass, Share, Step};
use super::trainer::Ready;

/// Trains until there are no more questions.
pub(crate) fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let (_, group, mut questions) = seat::take()?;
    let shape: Shape = questions.next().ok_or("nobody says what to train")??.parse()?;
    let mut together = Learner::together(&shape, &group)?;
    let mut alone = Learner::alone(&shape)?;
    say(&Ready { ready: format!("consort {}", env!("CARGO_PKG_VERSION")) })?;
    for question in questions {
        let steps = question?.parse()?;
        let mut passes = Vec::with_capacity(steps);
        let together = learn(&mut together, &group, steps, &mut passes)?;
        let alone = learn(&mut alone, &group, steps, &mut passes)?;
        say(&Share { together, alone, passes })?;
    }
    Ok(())
}

/// Makes so many steps. Takes note of what is known of their communication.
fn learn(
    learner: &mut Learner,
    group: &Group,
    steps: usize,
    passes: &mut Vec<Pass>,
) -> Result<Vec<Step>, Box<dyn Error>> {
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        group.barrier()?;
        let (start, before) = (now(), computed());
        let loss = learner.step()?;
        times.push(Step { start, end: now(), computed: computed() - before });
        passes.extend(learner.pass());
        let loss = loss.to_scalar::<f32>()?;
        if !loss.is_finite() {
            return Err(format!("the loss is {loss}").into());
        }
    }
    learner.check()?;
    Ok(times)
}

/// For how long this process has computed, on all its threads, in nanoseconds.
fn computed() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
