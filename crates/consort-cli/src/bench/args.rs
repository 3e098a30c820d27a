//! What to measure, as asked on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use consort_sys::dtype::{Dtype, ReduceOp};

use super::bytes;
use super::ddp;
use super::op::Op;
use super::point::Point;
use super::setting::{Setting, Transport};

/// Measure collectives between ranks on this machine, alone or against other implementations.
///
/// Starts its own ranks, warms up, checks results while it is at it, and prints the median time of
/// a call, what 99 of 100 calls stay below, and the bandwidth. Measure on an otherwise idle machine:
/// a single busy process elsewhere changes everything below a millisecond.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true,
          disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) other: Option<Other>,

    /// What to measure: all_reduce, broadcast, reduce, all_gather, reduce_scatter, gather, scatter,
    /// all_to_all, send_recv, barrier, or all of them.
    #[arg(value_name = "OP", default_value = "all_reduce", value_parser = parse_ops)]
    ops: Vec<Ops>,

    /// How many ranks to start.
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,

    /// How the ranks reach each other, ours and the peers'. With tcp, bare sockets are measured as
    /// well, and nobody is believed whose data does not pass the loopback interface.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    transport: Transport,

    /// Put our ranks on so many hosts, network namespaces that are made for it, and compare them
    /// with TCP everywhere ("flat"). Needs root and the program ip.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    hosts: u32,

    /// Encrypt what our ranks send over TCP, as CONSORT_ENCRYPT=on does. Peers cannot.
    #[arg(long)]
    encrypt: bool,

    /// Sizes, as nccl-tests counts them: of the larger one of a rank's two buffers. They are rounded
    /// to a whole number of elements for each rank.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes,
          default_values = ["8", "1KiB", "16KiB", "64KiB", "1MiB", "16MiB", "64MiB"])]
    bytes: Vec<usize>,

    /// Types of numbers: f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, u16, u32, u64,
    /// bool, c64, c128.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "f32")]
    dtype: Vec<Dtype>,

    /// How to combine them, in all_reduce, reduce and reduce_scatter: sum, avg, product, min, max, bit_and, bit_or, bit_xor, or premul_sum
    /// with a factor, as in premul_sum:0.5.
    #[arg(long, value_name = "OP", default_value = "sum")]
    op: ReduceOp,

    /// Let results go where the input was.
    #[arg(long)]
    in_place: bool,

    /// Put our ranks' buffers into symmetric memory. Peers keep theirs.
    #[arg(long)]
    symmetric: bool,

    /// Put everyone's buffers on huge pages, as far as the kernel has some.
    #[arg(long)]
    huge_pages: bool,

    /// How long to measure each point, each time.
    #[arg(long, value_name = "S", default_value_t = 0.25, value_parser = parse_seconds)]
    seconds: f64,

    /// How often to measure each point; the median counts. Default: 1 alone, 5 in comparison.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Measure these in turn with ours, and print ratios: gloo, openmpi, mpich, intelmpi, or any
    /// other program in bench/peers. bench/setup installs them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) against: Vec<PeerName>,

    /// Where the peers' programs are. Default: bench/peers in consort's repository.
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

    /// Draw latency and bandwidth over size into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is not a matter of single calls.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Other {
    Ddp(ddp::Args),
}

/// The name of a program in the peers' folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerName(String);

/// What one word on the command line stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ops(Vec<Op>);

impl Args {
    /// Every point to measure: all sizes of one operation and dtype, then the next.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for (_, point) in self.asked() {
            // A barrier has no sizes, and small sizes may come to the same.
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// Every size that was asked for, and the point that comes of it.
    pub(crate) fn asked(&self) -> Vec<(usize, Point)> {
        let mut asked = Vec::new();
        for op in self.ops.iter().flat_map(|ops| &ops.0) {
            for dtype in &self.dtype {
                let points = self.bytes.iter().map(|it| (*it, self.point(*op, *dtype, *it)));
                asked.extend(points);
            }
        }
        asked
    }

    /// What is the same for everyone who is measured.
    pub(crate) fn setting(&self) -> Setting {
        Setting {
            ranks: self.ranks as usize,
            transport: self.transport,
            hosts: self.hosts as usize,
            encrypt: self.encrypt,
            huge_pages: self.huge_pages,
            symmetric: self.symmetric,
        }
    }

    /// How often to measure each point.
    pub(crate) fn rounds(&self) -> u32 {
        let setting = self.setting();
        let alone = self.against.is_empty() && !setting.is_loopback_alone() && !setting.is_mixed();
        self.rounds.unwrap_or(if alone { 1 } else { 5 })
    }

    fn point(&self, op: Op, dtype: Dtype, bytes: usize) -> Point {
        // A barrier has no numbers either.
        let dtype = if op == Op::Barrier { Dtype::F32 } else { dtype };
        let Self { op: reduce, seconds, in_place, .. } = *self;
        Point { op, dtype, reduce, bytes, seconds, in_place }.rounded(self.ranks as usize)
    }
}

impl PeerName {
    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err("a peer is the name of a program in bench/peers: gloo, openmpi, mpich, \
                        intelmpi"
                .to_owned());
        }
        Ok(Self(name.to_owned()))
    }
}

fn parse_ops(word: &str) -> Result<Ops, String> {
    let all = || Op::ALL.to_vec();
    if word == "all" { Ok(Ops(all())) } else { word.parse().map(|op| Ops(vec![op])) }
}

fn parse_bytes(text: &str) -> Result<usize, String> {
    match bytes::parse(text)? {
        0 => Err("give 1 byte or more; barrier is the operation without any".to_owned()),
        bytes => Ok(bytes),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(seconds),
        _ => Err("a number of seconds above 0, such as 0.5".to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  All sizes of all_reduce between two ranks:
      consort bench
  Everything, against all peers, with a drawing:
      bench/setup
      consort bench all -n 2 --against gloo,openmpi,mpich,intelmpi --plot bench.svg
  More ranks than cores:
      consort bench all_reduce barrier -n 8 --bytes 8,1KiB,1MiB
  Over TCP on one host, against peers that are held to it, and bare sockets:
      consort bench -n 2 --transport tcp --against gloo,openmpi,mpich,intelmpi
  Two hosts with two ranks each, against TCP between all four:
      consort bench -n 4 --hosts 2
  What communication adds to a step of data-parallel training:
      consort bench ddp --against torch
  For a script:
      consort bench all --json | jq -c '[.op, .bytes, .p50_us]'

What the columns mean (all times in microseconds):
  p50, min  the median and the best over blocks of calls back to back, 2 ms
            each, after a barrier: from the earliest start to the latest end
            over ranks, by the number of calls
  p99       what 99 of 100 single calls on single ranks stay below. * marks one
            below p50: either few calls took most of the time, as when ranks
            share cores, or some ranks return long before the others
  bus GB/s  what the slowest link carries, as nccl-tests computes it
  ratio     the best peer's p50 by ours: above 1 we are faster. ~ marks rows
            during which the cores moved closer together or further apart:
            measure those again
  raw       with --transport tcp: two processes that send each other what the
            link between two ranks carries, both ways at once, over 1 or over 4
            streams (x1, x4), whichever is faster
  of raw    our bus bandwidth by that of raw
  flat      with --hosts, where ranks share hosts: ours with TCP between all of
            them; ratio is then flat's p50 by that of ours

What --transport tcp holds everyone to, all on the loopback interface:
  consort   Transport::Tcp, as CONSORT_TRANSPORT=tcp does
  gloo      knows nothing else
  openmpi   --mca pml ob1 --mca btl tcp,self --mca coll ^sm,han,xhc
  mpich     MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp
  intelmpi  I_MPI_FABRICS=ofi I_MPI_SHM=off I_MPI_COLL_INTRANODE=pt2pt
            FI_PROVIDER=tcp
  --transport shm forces ours likewise; peers use shared memory by default.

Exit code: 0, 1 if something could not be measured or was wrong, 2 for wrong usage.";

#[cfg(test)]
pub(crate) mod tests;
