//! What to train, as asked on the command line.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use clap::ValueEnum;

use super::super::args::PeerName;
use super::super::setting::{Setting, Transport};
use super::shape::Shape;
use super::trainer::Task;

/// Measure what communication adds to a step of data-parallel training, alone or against PyTorch.
///
/// Starts ranks of its own that train a chain of linear layers with consort-train on candle: forward,
/// backward, averaging of gradients, a step of SGD. Every rank trains a second model of the same shape
/// without communication, in turn with the first and at the same time as the other ranks. The
/// difference between the two is what communication costs; what backward hides of it costs nothing.
/// Peers do the same with theirs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to train: mlp, a few large tensors; small, many small ones; or both.
    #[arg(value_name = "MODEL", value_enum, default_values = ["mlp", "small"])]
    models: Vec<Model>,

    /// How many ranks to start.
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,

    /// How our ranks reach each other. Peers do as they always do.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    transport: Transport,

    /// How many examples each rank learns from in a step.
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// How many linear layers mlp has, each with a matrix and a bias.
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    layers: u32,

    /// How wide the layers of mlp are.
    #[arg(long, value_name = "N", default_value_t = 2048,
          value_parser = clap::value_parser!(u32).range(1..=16_384))]
    width: u32,

    /// How many tensors small has: a matrix of 64 x 64 and a bias of 64 in turn.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = parse_tensors)]
    tensors: u32,

    /// How many threads each rank computes with. Default: its share of the cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// How many steps to make at a time, with communication and without. The first does not count.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) steps: u32,

    /// How often everyone's turn comes.
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,

    /// Train in turn with these, and print ratios: torch, torch-views, or any other program in
    /// bench/peers/ddp. bench/setup installs them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) against: Vec<PeerName>,

    /// Where the peers' programs are. Default: bench/peers/ddp in consort's repository.
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// A few large tensors.
    Mlp,
    /// Many small tensors.
    Small,
}

impl Args {
    /// Every model to train, and what to tell those who do.
    pub(crate) fn tasks(&self) -> Vec<(Model, Task)> {
        let mut models: Vec<Model> = Vec::new();
        for model in &self.models {
            if !models.contains(model) {
                models.push(*model);
            }
        }
        models.into_iter().map(|model| (model, self.task(model))).collect()
    }

    fn task(&self, model: Model) -> Task {
        let (layers, width) = match model {
            Model::Mlp => (self.layers, self.width),
            Model::Small => (self.tensors / 2, SMALL_WIDTH),
        };
        let [layers, width, batch] = [layers, width, self.batch].map(|number| number as usize);
        let ranks = self.ranks as usize;
        let setting = Setting {
            ranks,
            transport: self.transport,
            hosts: 1,
            encrypt: false,
            huge_pages: false,
            symmetric: false,
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.threads.map_or((cores / ranks).max(1), |threads| threads as usize);
        Task { setting, threads, shape: Shape { layers, width, batch } }
    }
}

impl Model {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mlp => "mlp",
            Self::Small => "small",
        }
    }
}

fn parse_tensors(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(tensors @ 2..=100_000) if tensors.is_multiple_of(2) => Ok(tensors),
        _ => Err("an even number from 2 to 100000: every layer has a matrix and a bias".to_owned()),
    }
}

/// The width of small's layers.
const SMALL_WIDTH: u32 = 64;

const EXAMPLES: &str = "\
Examples:
  Both models between two ranks:
      consort bench ddp
  Against PyTorch's DistributedDataParallel on Gloo, with and without
  gradient_as_bucket_view:
      bench/setup torch
      consort bench ddp --against torch,torch-views
  800 small tensors on four ranks:
      consort bench ddp small --tensors 800 -n 4
  For a script:
      consort bench ddp --json | jq -c '[.model, .impl, .exposed_ms]'

How it is measured, the same for us and for every peer: a step is forward,
backward, averaging and SGD on a batch that stays the same; each begins after
a barrier, which is not part of it, and lasts from the earliest start to the
latest end over ranks. Everyone makes 10 steps first. Then, round after round,
each in turn makes a few steps with communication and as many without, of
which the first do not count. Everyone keeps the memory that it has had
(GLIBC_TUNABLES), as what is given back to the system and fetched anew depends
on chance, and can take longer than all communication.

What the columns mean (all times in milliseconds):
  step      the median of the steps with communication
  alone     the median of the steps without, on the same ranks at the same time
  exposed   step less alone: what communication adds. Measure with more
            --rounds if it is small beside them, and on an idle machine
  cpu       how much longer a rank's process computes in a step with
            communication, on all its threads, on average over ranks. That
            hardly depends on what else runs on the machine
  hidden    the part of the time from the first bucket's start until the last
            was there in which backward computed, by the clock of whoever
            averages them (PyTorch's is read in its first steps, after which
            it stops)
  first     the first step of all, in processes that have done nothing yet
  tenth     the tenth
  ratio     a peer's exposed time by ours: above 1 ours is shorter. ~ marks
            rows during which the cores moved closer together or further
            apart: measure those again

Fields of --json: op (ddp), impl, transport (of ours), model, tensors,
parameters, batch (of each rank), ranks, threads (of each rank), steps (how many
counted), step_ms, alone_ms, exposed_ms, step_min_ms, alone_min_ms (the
fastest), step_cpu_ms, alone_cpu_ms (medians of how long a rank computes),
first_ms, tenth_ms, communication_ms, hidden_ms (medians over passes of whoever
averages, if it tells), hop_us (how long a cache line takes from core to core).

Exit code: 0, 1 if something could not be measured or was wrong, 2 for wrong usage.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn tasks(line: &str) -> Result<Vec<(&'static str, Task)>, String> {
        let words = std::iter::once("ddp").chain(line.split_ascii_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(line.args.tasks().into_iter().map(|(model, task)| (model.name(), task)).collect())
    }

    #[test]
    fn without_arguments_both_models_are_trained_by_two_ranks() {
        let tasks = tasks("").unwrap();
        let told: Vec<(&str, String, usize)> = tasks
            .iter()
            .map(|(name, task)| (*name, task.shape.to_string(), task.setting.ranks))
            .collect();
        assert_eq!(told, [("mlp", "6 2048 32".into(), 2), ("small", "200 64 32".into(), 2)]);
        assert!(tasks.iter().all(|(_, task)| task.threads >= 1));
        assert_eq!(tasks[0].1.shape.parameters() / 1_000_000, 25);
    }

    #[test]
    fn shapes_are_as_asked_for_and_each_model_is_trained_once() {
        let tasks =
            tasks("small mlp small --tensors 8 --width 16 --layers 3 --batch 5 --threads 3");
        let told: Vec<(&str, String, usize)> = tasks
            .unwrap()
            .iter()
            .map(|(name, task)| (*name, task.shape.to_string(), task.threads))
            .collect();
        assert_eq!(told, [("small", "4 64 5".into(), 3), ("mlp", "3 16 5".into(), 3)]);
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        for (line, part) in [
            ("large", "possible values: mlp, small"),
            ("--tensors 7", "an even number"),
            ("--steps 1", "1 is not in 2..=100000"),
            ("-n 0", "0 is not in 1..=1024"),
            ("--against ../x", "a peer is the name"),
        ] {
            let error = tasks(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
