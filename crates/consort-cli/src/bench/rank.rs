//! `consort __bench_rank`: one of our own ranks, which measures what it is told to.
//!
//! Its standard input has one line that says who it is, then a point a line; it answers each with
//! what it has timed. Between points it sleeps in the kernel like every peer.

use std::error::Error;
use std::io::{self, BufRead};
use std::process::ExitCode;

use consort::{Builder, Group};
use serde::{Deserialize, Serialize};

use super::asker::{end_with, say};
use super::hosts;
use super::point::Point;
use super::samples::Samples;
use super::timing;
use super::work::Work;

/// Who a rank is. It is told in a pipe, because others can read command lines and environments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// Its number.
    pub(crate) rank: u32,
    /// How many there are.
    pub(crate) world: u32,
    /// Where they meet.
    pub(crate) address: String,
    /// Who may.
    pub(crate) secret: String,
    /// How they reach each other.
    pub(crate) transport: String,
    /// Whether what goes over TCP is sealed.
    pub(crate) encrypt: bool,
    /// Whether its buffers lie in symmetric memory.
    pub(crate) symmetric: bool,
    /// The host that it runs on, if not the one that it was started on.
    pub(crate) host: Option<String>,
    /// The process that asks; the rank ends with it.
    pub(crate) asker: u32,
}

/// What a rank says when it has met the others.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Met {
    /// Its number.
    pub(crate) met: u32,
}

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
    let mut lines = io::stdin().lock().lines();
    let seat: Seat = serde_json::from_str(&lines.next().ok_or("nobody says who this rank is")??)?;
    end_with(seat.asker)?;
    if let Some(host) = &seat.host {
        hosts::enter(host)?;
    }
    let group = Builder::new()
        .rank(seat.rank)
        .world(seat.world)
        .address(&seat.address)?
        .secret(seat.secret.parse()?)
        .transport(seat.transport.parse()?)
        .encrypt(seat.encrypt)
        .init()?;
    say(&Met { met: seat.rank })?;
    for line in lines {
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
