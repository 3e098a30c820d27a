//! `consort plan simulate`: what algorithms would take on a network.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use consort_plan::cost::{self, Link, Network, Pipeline, SlowLink, Straggler};
use consort_plan::{Collective, Layout, algo, choose};

use super::plot::{self, Chart};
use super::record::{Outcome, Record};
use super::table::{self, Along};
use super::units::{parse_bandwidth, parse_time};
use super::{Failure, case, say};
use crate::bench::bytes;

/// Predict what every algorithm would take, for any number of ranks, on a model of the network.
///
/// A message takes a latency (alpha) and then a time for each byte (beta); combining takes time too
/// (gamma). Ranks of one host talk over its memory and share its port to the network. The model says
/// which algorithm is better and by how much; it does not know your switches.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to predict: all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter,
    /// all_to_all, barrier, or all of them.
    #[arg(value_name = "OP", default_value = "all_reduce", value_parser = parse_ops)]
    ops: Vec<Ops>,

    /// How many ranks; several numbers make a row for each.
    #[arg(short = 'n', long, value_name = "LIST", value_delimiter = ',', default_value = "8",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: Vec<u32>,

    /// On how many hosts they are, one host after the other. Default: each on its own.
    #[arg(long, value_name = "H", conflicts_with = "per_host")]
    hosts: Option<u32>,

    /// How many ranks a host has, for any number of ranks.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    per_host: Option<u32>,

    /// Sizes: the bytes of the larger one of a rank's two buffers.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes::parse,
          default_values = ["8", "1KiB", "16KiB", "256KiB", "4MiB", "64MiB"])]
    bytes: Vec<usize>,

    /// Only these algorithms: flat, ring, pairwise, binomial, double_tree, halving, doubling, bruck,
    /// hierarchical, shares.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = case::parse_algorithm)]
    algorithm: Vec<&'static str>,

    /// What is between hosts: 25g, 100g, 400g (Ethernet in one building), wan (a gigabit, 20 ms) or
    /// loopback (TCP within one host).
    #[arg(long, value_name = "NAME", default_value = "25g")]
    network: Network,

    /// The latency between hosts, instead of the network's: 5us, 20ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    alpha: Option<f64>,

    /// The bandwidth between hosts, instead of the network's: 25Gbit, 3GB.
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    beta: Option<f64>,

    /// How fast numbers are combined: 10GB.
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    gamma: Option<f64>,

    /// How many ports a host has to the network.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ports: u32,

    /// The bytes of the vector in a segment.
    #[arg(long, value_name = "B", default_value = "1MiB", value_parser = bytes::parse)]
    segment: usize,

    /// How many segments are under way at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    lanes: u32,

    /// The link between two hosts takes so many times as long, as in 0:5:10.
    #[arg(long, value_name = "A:B:FACTOR", value_parser = parse_slow_link)]
    slow_link: Option<SlowLink>,

    /// A rank comes so much later, as in 3:20ms.
    #[arg(long, value_name = "RANK:TIME", value_parser = parse_straggler)]
    straggler: Option<Straggler>,

    /// Draw the times into this file.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,

    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    json: bool,
}

/// What one word on the command line stands for.
#[derive(Clone, Debug)]
struct Ops(Vec<Collective>);

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let layouts =
        args.ranks.iter().map(|ranks| args.layout(*ranks)).collect::<Result<Vec<_>, _>>()?;
    let along = if args.ranks.len() > 1 { Along::Ranks } else { Along::Bytes };
    let mut groups: Vec<(Collective, Vec<Vec<Record>>)> = Vec::new();
    for op in args.ops.iter().flat_map(|ops| ops.0.clone()) {
        // A barrier has no sizes.
        let sizes = if op == Collective::Barrier { &[0][..] } else { &args.bytes };
        if along == Along::Bytes {
            let rows = sizes.iter().map(|size| args.row(op, *size, &layouts[0])).collect();
            groups.push((op, rows));
        } else {
            for size in sizes {
                let rows = layouts.iter().map(|layout| args.row(op, *size, layout)).collect();
                groups.push((op, rows));
            }
        }
    }
    let names = args.names();
    for (_, rows) in &groups {
        if args.json {
            let lines = rows.iter().flatten().filter_map(Record::json);
            lines.into_iter().try_for_each(|line| say(format_args!("{line}\n")))?;
        } else {
            say(format_args!("{}", tell(along, &names, rows)))?;
        }
    }
    match &args.svg {
        None => Ok(()),
        Some(path) => {
            let charts: Vec<Chart<'_>> =
                groups.iter().map(|(op, rows)| chart(along, *op, rows)).collect();
            let svg = plot::draw(&names, &charts).map_err(Failure::failed)?;
            fs::write(path, svg).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            })
        }
    }
}

impl Args {
    fn layout(&self, ranks: u32) -> Result<Layout, Failure> {
        if let Some(each) =
            self.per_host.filter(|each| ranks > *each && !ranks.is_multiple_of(*each))
        {
            return Err(Failure::usage(format!(
                "{ranks} ranks do not fill hosts of {each}: give --hosts, or a --per-host that divides \
                 {ranks}"
            )));
        }
        let hosts = self.per_host.map(|each| (ranks / each).max(1)).or(self.hosts);
        let layout = case::layout(ranks, hosts)?;
        if let Some(slow) = self.slow_link
            && slow.one.max(slow.other) >= layout.count()
        {
            let last = layout.count() - 1;
            return Err(Failure::usage(format!(
                "--slow-link: hosts are numbered from 0 to {last}"
            )));
        }
        if self.straggler.is_some_and(|it| it.rank >= ranks) {
            let last = ranks - 1;
            return Err(Failure::usage(format!(
                "--straggler: ranks are numbered from 0 to {last}"
            )));
        }
        Ok(layout)
    }

    fn names(&self) -> Vec<&'static str> {
        if self.algorithm.is_empty() { algo::NAMES.to_vec() } else { self.algorithm.clone() }
    }

    fn row(&self, op: Collective, size: usize, layout: &Layout) -> Vec<Record> {
        let chosen = choose::choose(op, size as u64, layout).algorithm;
        let question = self.question(op, size, layout);
        let record = |name: &'static str| {
            let algorithm = algo::named(name, layout).expect("names were read before");
            let outcome = match cost::predict(&*algorithm, &question) {
                Ok(prediction) => Outcome::Takes(prediction.seconds),
                Err(error) => error.into(),
            };
            Record {
                op,
                algorithm: name,
                ranks: layout.world(),
                hosts: layout.count(),
                bytes: size,
                outcome,
                chosen,
            }
        };
        self.names().into_iter().map(record).collect()
    }

    fn question(&self, op: Collective, size: usize, layout: &Layout) -> cost::Case {
        let mut network = self.network;
        let (alpha, beta) = (self.alpha, self.beta);
        let Link { alpha: latency, beta: per_byte, .. } = network.between;
        network.between = Link::new(alpha.unwrap_or(latency), beta.unwrap_or(1.0 / per_byte));
        network.gamma = self.gamma.map_or(network.gamma, |rate| 1.0 / rate);
        network.ports = self.ports;
        let pipeline = Pipeline {
            segment: self.segment.max(1) as u64,
            lanes: self.lanes,
            ..Pipeline::default()
        };
        let (slow_link, straggler) = (self.slow_link, self.straggler);
        let case = cost::Case::new(op, size as u64, layout.clone(), network);
        cost::Case { pipeline, slow_link, straggler, ..case }
    }
}

/// A table, without the algorithms that support nothing in it.
fn tell(along: Along, names: &[&'static str], rows: &[Vec<Record>]) -> String {
    let supports = |at: &usize| rows.iter().any(|row| row[*at].outcome != Outcome::Unsupported);
    let kept: Vec<usize> = (0..names.len()).filter(supports).collect();
    let names: Vec<&str> = kept.iter().map(|at| names[*at]).collect();
    let pick = |row: &Vec<Record>| kept.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
    let rows: Vec<Vec<Record>> = rows.iter().map(pick).collect();
    let rows: Vec<&[Record]> = rows.iter().map(Vec::as_slice).collect();
    table::write(along, &names, &rows)
}

fn chart(along: Along, op: Collective, rows: &[Vec<Record>]) -> Chart<'_> {
    let first = rows.first().and_then(|row| row.first());
    let rest = first.map_or_else(String::new, |record| match along {
        Along::Bytes => format!(", {} ranks on {} hosts", record.ranks, record.hosts),
        Along::Ranks if op == Collective::Barrier => " over ranks".to_owned(),
        Along::Ranks => format!(", {}, over ranks", bytes::write(record.bytes)),
    });
    Chart {
        title: format!("{}{rest}", op.name()),
        along,
        rows: rows.iter().map(Vec::as_slice).collect(),
    }
}

fn parse_ops(word: &str) -> Result<Ops, String> {
    match word {
        "all" => Ok(Ops(Collective::all(0).to_vec())),
        _ => Collective::from_str(word).map(|op| Ops(vec![op])).map_err(|error| error.to_string()),
    }
}

fn parse_slow_link(text: &str) -> Result<SlowLink, String> {
    let wrong = || "a slow link is two hosts and a factor, as in 0:5:10".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let [one, other, factor] = parts[..] else { return Err(wrong()) };
    let host = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let factor = factor.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor > 0.0);
    Ok(SlowLink { one: host(one)?, other: host(other)?, factor: factor.ok_or_else(wrong)? })
}

fn parse_straggler(text: &str) -> Result<Straggler, String> {
    let wrong = || "a straggler is a rank and a time, as in 3:20ms".to_owned();
    let (rank, delay) = text.split_once(':').ok_or_else(wrong)?;
    let rank = rank.parse::<u32>().map_err(|_| wrong())?;
    Ok(Straggler { rank, delay: parse_time(delay).map_err(|_| wrong())? })
}

const EXAMPLES: &str = "\
Examples:
  consort plan simulate all_reduce --ranks 4096 --hosts 512 --alpha 5us --beta 25Gbit
  consort plan simulate all -n 64 --network 100g --bytes 1MiB
  consort plan simulate all_reduce -n 2,16,128,1024,8192,65536 --per-host 8 --bytes 64MiB --svg scaling.svg
  consort plan simulate all_reduce -n 16 --bytes 16MiB --straggler 3:20ms
  consort plan simulate all_reduce -n 16 --bytes 16MiB --slow-link 4:5:10

What the table says:
  *          the fastest of its row
  chosen     what would be used (`consort plan choose` says why)
  –          the algorithm does not have this operation
  too large  there would be too many messages to simulate

Large vectors are cut into segments (--segment), of which some are under way at once (--lanes).";
