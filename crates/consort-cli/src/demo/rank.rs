//! `consort __demo_rank`: one of the processes that learn. It is told who it is on its standard input, and
//! says on its standard output what it does.

use std::error::Error;
use std::io::{self, BufRead};
use std::process::ExitCode;

use consort::{Builder, Group};

use super::alone;
use super::pupil::{Done, Pupil};
use super::words::{Loss, Meeting, Seat, Task, Word};
use crate::bench::asker::{end_with, say};
use crate::bench::timing::now;

/// Learns until it is done.
pub(crate) fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody hears it, nobody wants to know.
            let _ = say(&Word::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), Box<dyn Error>> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let seat: Seat = serde_json::from_str(&line)?;
    end_with(seat.asker)?;
    match &seat.meeting {
        Some(meeting) => learn(seat.task, meeting, seat.is_doomed),
        None => alone::learn(seat.task),
    }
}

fn learn(task: Task, meeting: &Meeting, is_doomed: bool) -> Result<(), Box<dyn Error>> {
    let mut pupil = Pupil::new(&meet(meeting)?, task)?;
    say(&pupil.ready())?;
    let mut number = 0;
    while number < task.steps {
        if is_doomed && number + 1 == task.steps {
            wait_to_be_killed();
        }
        match pupil.step(number)? {
            Done::Step(step) => {
                say(&Word::Step(step))?;
                number += 1;
            }
            Done::Lost(error) => {
                say(&Word::Lost(Loss { at: now(), step: number, error: error.to_string() }))?;
                number = pupil.go_on(number)?;
                say(&Word::Resumed { at: now(), ranks: pupil.ranks() })?;
            }
        }
    }
    say(&Word::Tested(pupil.test()?))?;
    say(&Word::Compared(pupil.compare()))?;
    say(&Word::Done)?;
    Ok(())
}

fn meet(meeting: &Meeting) -> Result<Group, Box<dyn Error>> {
    let Meeting { rank, world, address, secret } = meeting;
    let builder = Builder::new().rank(*rank).world(*world).address(address)?;
    Ok(builder.secret(secret.parse()?).init()?)
}

/// Whoever kills it is on the way.
fn wait_to_be_killed() {
    loop {
        std::thread::park();
    }
}
