//! One rank of a soak: adds numbers with whoever is there.

use std::io::{self, BufRead};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use consort::{Builder, Error, ErrorKind, Group, ReduceOp, Result};
use serde::{Deserialize, Serialize};

/// What a rank is told on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) place: String,
    pub(super) secret: String,
    pub(super) transport: String,
    /// Its rank, and how many there are; `None` if it joins those who are there.
    pub(super) rank: Option<(u32, u32)>,
}

/// What it says on its standard output, a line each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// It has met the others.
    Met,
    /// So many results were right.
    Right(u64),
    /// Its group has become smaller.
    Smaller,
    /// Its group has become larger.
    Larger,
    /// It was told that it is enough.
    Done,
    /// Something is wrong.
    Failed(String),
}

/// Runs until it is told that it is enough.
pub(crate) fn main() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let seat = read.ok().and_then(|_| serde_json::from_str::<Seat>(&line).ok());
    let Some(seat) = seat else {
        say(&Word::Failed("it was not told who it is".to_owned()));
        return ExitCode::FAILURE;
    };
    thread::spawn(|| {
        // Whoever has started it is gone.
        let _ = io::stdin().lock().read_line(&mut String::new());
        std::process::exit(1);
    });
    match work(&seat) {
        Ok(()) => {
            say(&Word::Done);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&Word::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Where the ranks are in what they do together: the same for all.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    step: u64,
}

fn work(seat: &Seat) -> Result<()> {
    let mut group = meet(seat)?;
    let mut progress = Progress::default();
    say(&Word::Met);
    if seat.rank.is_none() {
        catch_up_or_leave_it(&group, &mut progress)?;
    }
    let mut tally = Tally::new();
    loop {
        match step(&group, &mut progress) {
            Ok(Next::Enough) => return tally.tell(),
            Ok(Next::More) => tally.count()?,
            Ok(Next::Newcomers) => group = grow(group, &mut progress)?,
            Err(error) if is_loss(&error) => {
                say(&Word::Smaller);
                group = group.shrink()?;
                catch_up_or_leave_it(&group, &mut progress)?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_loss(error: &Error) -> bool {
    error.kind() == ErrorKind::PeerGone
}

/// Meets the others. One who comes later tries again when those whom it was to join have died.
fn meet(seat: &Seat) -> Result<Group> {
    let builder = || -> Result<Builder> {
        let address = Builder::new().address(&seat.place)?;
        let secret = seat.secret.parse().map_err(|_| bad("secret"))?;
        let transport = seat.transport.parse().map_err(|_| bad("transport"))?;
        Ok(address.secret(secret).transport(transport).timeout(PATIENCE))
    };
    match seat.rank {
        Some((rank, world)) => builder()?.rank(rank).world(world).init(),
        None => loop {
            match builder()?.join() {
                Err(error) if is_loss(&error) || error.kind() == ErrorKind::Deadline => {}
                met => return met,
            }
        },
    }
}

fn bad(what: &str) -> Error {
    Error::Argument(format!("the {what} cannot be read"))
}

/// What comes after a step.
enum Next {
    More,
    Newcomers,
    Enough,
}

/// Adds numbers that tell whose they are and where, and looks at every one.
fn step(group: &Group, progress: &mut Progress) -> Result<Next> {
    let (rank, world) = (u64::from(group.rank().get()), group.world() as u64);
    let len = LENGTHS[progress.step as usize % LENGTHS.len()];
    let mut numbers: Vec<u64> =
        (0..len as u64).map(|at| (rank + 1) * (at + 1) + progress.step).collect();
    group.all_reduce(&mut numbers, ReduceOp::Sum)?;
    for (at, &sum) in (0..).zip(&numbers) {
        let expected = world * (world + 1) / 2 * (at + 1) + world * progress.step;
        if sum != expected {
            let what = format!("number {at} of {len} is {sum} instead of {expected}");
            return Err(Error::Argument(what));
        }
    }
    progress.step += 1;
    let mut news = [0_u8; 2];
    if rank == 0 {
        news = look_for_news(group)?;
    }
    group.broadcast(&mut news, 0)?;
    Ok(match news {
        [0, 0] => Next::More,
        [0, _] => Next::Newcomers,
        _ => Next::Enough,
    })
}

/// Whether it is enough, and whether somebody wants to join. A store that is slow to answer has none.
fn look_for_news(group: &Group) -> Result<[u8; 2]> {
    let is_enough = group.store().check(&[STOP]).map_err(Error::from);
    let news =
        is_enough.and_then(|is_enough| Ok([u8::from(is_enough), u8::from(group.newcomers()? > 0)]));
    match news {
        Err(error) if error.kind() == ErrorKind::Deadline => Ok([0; 2]),
        news => news,
    }
}

/// A larger group, if that succeeds.
fn grow(group: Group, progress: &mut Progress) -> Result<Group> {
    match group.grow() {
        Ok(larger) if larger.world() == group.world() => Ok(group),
        Ok(larger) => {
            say(&Word::Larger);
            catch_up_or_leave_it(&larger, progress)?;
            Ok(larger)
        }
        // Somebody was killed on the way to the meeting. The next step finds out who.
        Err(error) if is_loss(&error) || error.kind() == ErrorKind::Deadline => Ok(group),
        Err(Error::PeerUnable { .. }) => Ok(group),
        Err(error) => Err(error),
    }
}

/// All go on where the one is who has come furthest: some may have had the result of a step that others
/// had not.
fn catch_up(group: &Group, progress: &mut Progress) -> Result<()> {
    let mut step = [progress.step];
    group.all_reduce(&mut step, ReduceOp::Max)?;
    progress.step = step[0];
    Ok(())
}

/// The same; if somebody is killed meanwhile, the next step finds out.
fn catch_up_or_leave_it(group: &Group, progress: &mut Progress) -> Result<()> {
    match catch_up(group, progress) {
        Err(error) if !is_loss(&error) => Err(error),
        _ => Ok(()),
    }
}

/// How many results were right since it was told.
struct Tally {
    results: u64,
    told: Instant,
}

impl Tally {
    fn new() -> Self {
        Self { results: 0, told: Instant::now() }
    }

    fn count(&mut self) -> Result<()> {
        self.results += 1;
        if self.told.elapsed() > Duration::from_millis(200) { self.tell() } else { Ok(()) }
    }

    fn tell(&mut self) -> Result<()> {
        say(&Word::Right(std::mem::take(&mut self.results)));
        self.told = Instant::now();
        Ok(())
    }
}

fn say(word: &Word) {
    println!("{}", serde_json::to_string(word).expect("it is text and numbers"));
}

/// What is started for each rank.
pub(super) const COMMAND: &str = "__soak_rank";
/// Where the program's keys are in the store, for one who is not in the job.
pub(super) const PROGRAM: &str = "job/0/program";
/// Set when it is enough.
pub(super) const STOP: &str = "stop";
/// How long ranks wait for each other.
const PATIENCE: Duration = Duration::from_secs(20);
const LENGTHS: [usize; 5] = [1, 7, 1000, 65_537, 300_000];
