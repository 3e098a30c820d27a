//! `consort plan show`: programs to look at.

use std::fs;
use std::path::PathBuf;

use consort_plan::{Collective, Program, choose, draw};

use super::case;
use super::{Failure, say};

/// Show what every rank sends, receives and copies, round by round.
///
/// A vector has as many chunks as there are ranks. Ranks are not in step: a round begins when the
/// rank's own round before it has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The operation: all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter,
    /// all_to_all or barrier.
    #[arg(value_name = "OP")]
    op: Collective,

    /// The algorithm: flat, ring, pairwise, binomial, double_tree, halving, doubling, bruck,
    /// hierarchical or shares. Default: what would be chosen for 1 MiB.
    #[arg(short, long, value_name = "NAME", value_parser = case::parse_algorithm)]
    algorithm: Option<&'static str>,

    /// How many ranks.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,

    /// On how many hosts they are, one host after the other. Default: each on its own.
    #[arg(long, value_name = "H")]
    hosts: Option<u32>,

    /// The root, for operations that have one.
    #[arg(long, value_name = "R", default_value_t = 0)]
    root: u32,

    /// Show only this rank, in more words.
    #[arg(long, value_name = "R")]
    rank: Option<u32>,

    /// Draw lanes and arrows into this file instead.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let layout = case::layout(args.ranks, args.hosts)?;
    let op = case::with_root(args.op, args.root, args.ranks)?;
    let chosen = || choose::choose(op, 1 << 20, &layout).algorithm;
    let name = args.algorithm.unwrap_or_else(chosen);
    let algorithm = case::algorithm(name, op, &layout)?;
    let ranks = args.ranks;
    if let Some(rank) = args.rank {
        if rank >= ranks {
            return Err(Failure::usage(format!(
                "there is no rank {rank} among {ranks}: give --rank from 0 to {}",
                ranks - 1
            )));
        }
        let steps = draw::steps(&algorithm.program(op, ranks, rank));
        return say(format_args!("{op} by {name}, rank {rank} of {ranks}\n\n{steps}"));
    }
    let most = if args.svg.is_some() { MOST_DRAWN } else { MOST_SHOWN };
    if ranks > most {
        return Err(Failure::usage(format!(
            "{ranks} ranks are too many to look at (at most {most} here); show one of them with --rank"
        )));
    }
    let programs: Vec<Program> =
        (0..ranks).map(|rank| algorithm.program(op, ranks, rank)).collect();
    let title = title(op, name, &programs);
    match &args.svg {
        Some(path) => fs::write(path, draw::svg(&title, &programs))
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display()))),
        None => say(format_args!("{title}\n\n{}", draw::text(&programs))),
    }
}

fn title(op: Collective, name: &str, programs: &[Program]) -> String {
    let rounds = programs.iter().map(Program::len).max().unwrap_or(0);
    let (ranks, plural) = (programs.len(), if rounds == 1 { "" } else { "s" });
    format!("{op} by {name} between {ranks} ranks: {rounds} round{plural}")
}

const MOST_SHOWN: u32 = 64;
const MOST_DRAWN: u32 = 256;

const EXAMPLES: &str = "\
Examples:
  consort plan show all_reduce --algorithm halving -n 8
  consort plan show broadcast --algorithm double_tree -n 16 --root 3 --rank 7
  consort plan show all_reduce --algorithm hierarchical -n 8 --hosts 2 --svg lanes.svg";
