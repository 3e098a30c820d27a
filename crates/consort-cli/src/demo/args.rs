//! What to show, as asked on the command line.

use std::path::PathBuf;

use super::words::Task;
use crate::bench::can_be_written;

/// Train a small model on several ranks, watch it, and compare it with one process.
///
/// Starts ranks on this machine that learn together to read digits, with nothing but what this program
/// brings along: the pictures are drawn from a seed. Every rank has the whole model and a share of each
/// batch; their gradients are averaged while backward still computes others. Then one process learns the same
/// alone, from the same start and the same batches, so that it can be seen what the ranks are good for: how
/// much sooner they are done, and that they come to the same result. It takes about a minute on two cores.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many ranks to start. Default: one for each core, at least 2 and at most 8; 3 with
    /// --kill-a-rank.
    #[arg(short = 'n', long = "ranks", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    ranks: Option<u32>,

    /// How many steps to learn for.
    #[arg(long, value_name = "N", default_value_t = 320,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: u32,

    /// How many pictures to learn from in each step, all ranks together.
    #[arg(long, value_name = "N", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    batch: u32,

    /// Pictures, their order and the first parameters are made from this number.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Kill one rank on the way (SIGKILL), and see the others find out, go on without it and finish.
    #[arg(long)]
    pub(crate) kill_a_rank: bool,

    /// Do not let one process learn the same for comparison.
    #[arg(long)]
    pub(crate) no_compare: bool,

    /// Write a page about it into this file: figures, curves, what one step looked like on every rank,
    /// and what the model takes pictures for. It needs nothing else, and can be sent around.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// How many cores there are.
    pub(crate) cores: usize,
    pub(crate) ranks: usize,
    /// With how many threads each rank computes, and one process alone.
    pub(crate) threads: usize,
}

impl Args {
    /// What is to be learned.
    pub(crate) fn task(&self) -> Task {
        Task { seed: self.seed, steps: self.steps as usize, batch: self.batch as usize }
    }

    /// The command that does the same again.
    pub(crate) fn command(&self) -> String {
        let Self { steps, batch, seed, .. } = self;
        let ranks = self.ranks.map_or_else(String::new, |ranks| format!(" -n {ranks}"));
        let mut line = format!("consort demo{ranks} --steps {steps} --batch {batch} --seed {seed}");
        for (is_so, option) in
            [(self.kill_a_rank, " --kill-a-rank"), (self.no_compare, " --no-compare")]
        {
            line += if is_so { option } else { "" };
        }
        line
    }

    /// Who learns on a machine with so many cores.
    pub(crate) fn setting(&self, cores: usize) -> Setting {
        let usual = if self.kill_a_rank { 3 } else { cores.clamp(2, MOST) };
        let ranks = self.ranks.map_or(usual, |ranks| ranks as usize);
        Setting { cores, ranks, threads: (cores / ranks).max(1) }
    }

    /// Whether it makes sense, before anything starts.
    ///
    /// # Errors
    /// What does not, and what to do instead.
    pub(crate) fn check(&self, setting: Setting) -> Result<(), String> {
        let (ranks, batch) = (setting.ranks, self.batch as usize);
        if self.kill_a_rank && ranks < 2 {
            return Err("--kill-a-rank needs somebody who goes on: give -n 2 or more".to_owned());
        }
        if self.kill_a_rank && self.steps < FEWEST {
            return Err(format!(
                "{} steps are over before a rank can be killed on the way: give --steps {FEWEST} or more",
                self.steps
            ));
        }
        if batch < ranks {
            return Err(format!(
                "a batch of {batch} is too small for {ranks} ranks: every rank needs a picture in each \
                 step; give --batch {ranks} or more, or a smaller -n"
            ));
        }
        self.check_report()
    }

    /// A page that cannot be written is better known of now than in a minute.
    fn check_report(&self) -> Result<(), String> {
        let Some(path) = &self.report else { return Ok(()) };
        let in_words = |error| format!("cannot write {}: {error}", path.display());
        can_be_written(path).map_err(in_words)
    }
}

/// More ranks than this have too little to do in each step.
const MOST: usize = 8;
/// A rank is killed after some of them, and others should follow.
const FEWEST: u32 = 5;

const EXAMPLES: &str = "\
Examples:
      consort demo
  With a page to look at:
      consort demo --report demo.html
  One rank of three is killed on the way:
      consort demo --kill-a-rank --report demo.html
  Larger batches, four ranks, for a script:
      consort demo -n 4 --batch 512 --steps 100 --json | jq .speedup

What the words mean:
  loss          how wrong the model is on a batch: 2.3 before it has learned
                anything, towards 0 when it is sure and right
  samples/s     pictures learned from in a second, by all ranks together
  communicating how much of a step at least one bucket of gradients is on its
                way between the ranks, or waits for ranks that have not got to it
  hidden        how much of that time backward was computing all the same;
                the rest, which the ranks have to wait for, is exposed
  bus GB/s      bytes of gradients by the time they are on their way, times
                2 (n - 1) / n: what each rank's link carries, as nccl-tests counts
  speed-up      the time of one process by that of the ranks, both with the same
                number of threads for each process

What is checked:
  all ranks end with the same parameters, bit by bit; the loss of every step is
  that of one process but for rounding; the model reads pictures that it has not
  seen better than by chance; with --kill-a-rank: every other rank has named the
  one that was killed, and has gone on.

Exit code: 0, 1 if a check fails or a rank does, 2 for wrong usage, 130 after
Ctrl-C.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::digits::Set;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Line::try_parse_from(["demo"].into_iter().chain(line.split_ascii_whitespace()))
            .unwrap()
            .args
    }

    #[test]
    fn cores_are_shared_by_the_ranks() {
        let of = |line: &str, cores| {
            let Setting { ranks, threads, .. } = args(line).setting(cores);
            (ranks, threads)
        };
        assert_eq!(of("", 1), (2, 1));
        assert_eq!(of("", 2), (2, 1));
        assert_eq!(of("", 6), (6, 1));
        assert_eq!(of("", 64), (8, 8));
        assert_eq!(of("-n 3", 8), (3, 2));
        assert_eq!(of("--kill-a-rank", 2), (3, 1));
        assert_eq!(of("--kill-a-rank -n 2", 2), (2, 1));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        for (line, part) in [
            ("-n 1 --kill-a-rank", "give -n 2 or more"),
            ("--kill-a-rank --steps 3", "give --steps 5 or more"),
            ("-n 8 --batch 7", "a batch of 7 is too small for 8 ranks"),
            ("--report /nonexistent/x.html", "cannot write /nonexistent/x.html"),
        ] {
            let args = args(line);
            let refusal = args.check(args.setting(2)).unwrap_err();
            assert!(refusal.contains(part), "{line}: {refusal}");
        }
        assert_eq!(args("").check(args("").setting(2)), Ok(()));
    }

    #[test]
    fn no_batch_is_larger_than_what_there_is_to_learn_from() {
        assert_eq!(Set::Training.len(), 20_000);
    }
}
