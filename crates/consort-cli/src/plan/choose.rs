//! `consort plan choose`: what would be used, and why.

use consort_plan::Collective;
use consort_plan::choose;
use consort_plan::cost::{self, Network};

use super::units::write_time;
use super::{Failure, case, say};
use crate::bench::bytes;

/// Say which algorithm would be used, why, and what the others would take.
///
/// The choice is a table with a reason for each entry; the times come from the model that
/// `consort plan simulate` uses. Groups of up to 32 ranks have recipes of their own for what is
/// combined, gathered or exchanged, in which operands meet in the order of ranks: docs/algorithms.md
/// lists them. Name an algorithm, here and in CONSORT_ALGORITHM, to have it used as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The operation: all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter,
    /// all_to_all or barrier.
    #[arg(value_name = "OP")]
    op: Collective,

    /// The bytes of the vector: of the larger one of a rank's two buffers.
    #[arg(long, value_name = "B", default_value = "1MiB", value_parser = bytes::parse)]
    bytes: usize,

    /// How many ranks.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: u32,

    /// On how many hosts they are, one host after the other. Default: each on its own.
    #[arg(long, value_name = "H")]
    hosts: Option<u32>,

    /// What is between the hosts, for the times: 25g, 100g, 400g, wan or loopback.
    #[arg(long, value_name = "NAME", default_value = "25g")]
    network: Network,

    /// Use this algorithm whatever the table says.
    #[arg(short, long, value_name = "NAME", env = "CONSORT_ALGORITHM",
          value_parser = case::parse_wish)]
    algorithm: Option<case::Wish>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let layout = case::layout(args.ranks, args.hosts)?;
    let op = args.op;
    let choice = choose::choose(op, args.bytes as u64, &layout);
    let wish = args.algorithm.and_then(|case::Wish(name)| name);
    let used = wish.unwrap_or(choice.algorithm);
    case::algorithm(used, op, &layout)?;
    let (world, hosts) = (layout.world(), layout.count());
    let size = bytes::write(args.bytes);
    say(format_args!("{} of {size} between {world} ranks on {hosts} hosts: {used}\n", op.name()))?;
    if used == choice.algorithm {
        say(format_args!("  {}\n", choice.reason))?;
    } else {
        say(format_args!(
            "  because it was asked for; otherwise {}: {}\n",
            choice.algorithm, choice.reason
        ))?;
    }
    if layout.world() <= 32 && !matches!(op, Collective::Broadcast { .. } | Collective::Barrier) {
        let few = "groups of up to 32 ranks have recipes of their own unless one is named";
        say(format_args!("  {few}: docs/algorithms.md\n"))?;
    }
    say(format_args!("\npredicted by the model:\n"))?;
    let question = cost::Case::new(op, args.bytes as u64, layout.clone(), args.network);
    let mut times = Vec::new();
    for name in case::supporting(op, &layout) {
        let algorithm = case::algorithm(name, op, &layout)?;
        let time = cost::predict(&*algorithm, &question).map(|it| it.seconds);
        times.push((name, time.unwrap_or(f64::INFINITY)));
    }
    times.sort_by(|one, other| one.1.total_cmp(&other.1));
    for (name, seconds) in times {
        let mark = if name == used { "*" } else { " " };
        let time = if seconds.is_finite() {
            write_time(seconds)
        } else {
            "too many messages to simulate".to_owned()
        };
        say(format_args!("{mark} {name:<14}{time:>12}\n"))?;
    }
    Ok(())
}

const EXAMPLES: &str = "\
Examples:
  consort plan choose all_reduce --bytes 64MiB -n 24 --hosts 3
  consort plan choose all_to_all --bytes 1KiB -n 256 --network 100g
  CONSORT_ALGORITHM=ring consort plan choose all_reduce -n 8";
