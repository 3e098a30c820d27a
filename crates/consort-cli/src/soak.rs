//! `consort soak`: ranks that are killed and replaced at random, and must get on all the same.
//!
//! Decided in [`plan`], from a seed: when somebody is killed and when somebody comes. Carried out here.
//! What the ranks do is in [`rank`]; they report every result that was right, and end at the first that
//! was not.

mod herd;
mod plan;
pub(crate) mod rank;

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use consort::{Transport, duration};

use self::herd::Herd;
use self::plan::{Event, Plan};

/// Kill ranks at random and let others join, and see that those who are left get every result right.
///
/// The ranks add numbers that tell whose they are, in groups that become smaller when one of them is
/// killed and larger when another comes. It fails when a result is wrong, when a rank ends by itself, and
/// when nobody gets a result for a minute.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many ranks to begin with.
    #[arg(short = 'n', value_name = "N", default_value = "4")]
    ranks: NonZeroU32,

    /// How long.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    lasts: Duration,

    /// What happens when is made from this number; another for each run unless given.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// What data travels over: auto, shm or tcp.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    transport: Transport,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let seed = args.seed.unwrap_or_else(|| getrandom::u64().unwrap_or(1) >> 32);
    say(format_args!("seed {seed}, {} ranks, {}", args.ranks, duration::write(args.lasts)));
    match soak(args, seed) {
        Ok(summary) => {
            say(format_args!("{summary}"));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("consort: {reason}");
            let ranks = args.ranks;
            eprintln!(
                "  again: consort soak -n {ranks} --transport {} --seed {seed}",
                args.transport
            );
            ExitCode::FAILURE
        }
    }
}

fn soak(args: &Args, seed: u64) -> Result<String, String> {
    let began = Instant::now();
    let mut herd = Herd::start(args.ranks.get(), args.transport)?;
    let mut plan = Plan::new(seed, args.ranks.get());
    let mut told = began;
    while began.elapsed() < args.lasts {
        herd.watch(plan.pause())?;
        match plan.next(herd.alive()) {
            Event::Kill(which) => herd.kill(which)?,
            Event::Come => herd.add()?,
        }
        if told.elapsed() > TELL {
            told = Instant::now();
            say(format_args!("{:>6.0} s: {herd}", began.elapsed().as_secs_f32()));
        }
    }
    herd.end()
}

/// Says something to whoever listens. That nobody does is no reason to end.
fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// How often it says how it goes.
const TELL: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
      consort soak
      consort soak --for 30m -n 6 --transport tcp
      consort soak --seed 7";
