//! `consort __bench_rank`: one of our own ranks, which measures what it is told to.
//!
//! Its standard input has one line that says who it is, then a point a line; it answers each with
//! what it has timed. Between points it sleeps in the kernel like every peer.

use std::error::Error;
use std::process::ExitCode;

use consort::Group;

use super::asker::say;
use super::point::Point;
use super::samples::Samples;
use super::seat;
use super::timing;
use super::work::Work;

/// Measures until there are no more points.
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
    let (seat, group, questions) = seat::take()?;
    for line in questions {
        match measure(&group, &line?.parse()?, seat.symmetric) {
            Ok(samples) => say(&samples)?,
            Err(Failure::Point(error)) => say(&serde_json::json!({ "error": error }))?,
            Err(Failure::Group(error)) => return Err(error.into()),
        }
    }
    Ok(())
}

fn measure(group: &Group, point: &Point, symmetric: bool) -> Result<Samples, Failure> {
    let mut work = Work::new(group, point, symmetric)?;
    let check = |work: &mut Work<'_>| match work.check() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Group(format!("the result of {point} is wrong"))),
        Err(error) => Err(error.into()),
    };
    check(&mut work)?;
    let samples = timing::take(&mut work, point.seconds)?;
    // A result in place has been combined with itself many times.
    check(&mut work)?;
    Ok(samples)
}

/// Why a point was not measured.
enum Failure {
    /// Every rank says the same, and others can be measured.
    Point(String),
    /// The group is of no use any more.
    Group(String),
}

impl From<consort::Error> for Failure {
    fn from(error: consort::Error) -> Self {
        match error {
            consort::Error::Argument(_) | consort::Error::Unsupported(_) => {
                Self::Point(error.to_string())
            }
            _ => Self::Group(error.to_string()),
        }
    }
}
