//! `consort plan check`: proofs.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::thread;

use consort_plan::check::{self, Fault, Order, Report};
use consort_plan::{Collective, Layout, algo};

use super::case;
use super::{Failure, say};

/// Prove that schedules are right: all ranks run together, on symbols instead of numbers.
///
/// Every contribution is counted exactly once, everyone combines in the same order (so that all end
/// with the same bits), nobody waits forever, nothing is read that is being written; out of place and
/// in place. Without --ranks, for every number of ranks from 1 to 64.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Only this operation: all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather,
    /// scatter, all_to_all or barrier.
    #[arg(value_name = "OP", conflicts_with = "all")]
    op: Option<Collective>,

    /// Everything: all operations and algorithms from 1 to 64 ranks. What happens anyway when
    /// nothing else is asked for.
    #[arg(long)]
    all: bool,

    /// Only this algorithm: flat, ring, pairwise, binomial, double_tree, halving, doubling, bruck,
    /// hierarchical or shares.
    #[arg(short, long, value_name = "NAME", value_parser = case::parse_algorithm, conflicts_with = "all")]
    algorithm: Option<&'static str>,

    /// Only this many ranks.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "all",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,

    /// On how many hosts they are. Default: for algorithms that care, 2, 3 and 8.
    #[arg(long, value_name = "H", requires = "ranks")]
    hosts: Option<u32>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let worlds: Vec<u32> = args.ranks.map_or_else(|| (1..=64).collect(), |ranks| vec![ranks]);
    if let Some(ranks) = args.ranks {
        case::layout(ranks, args.hosts)?;
    }
    let cases: Vec<Case> = worlds.iter().flat_map(|world| args.cases(*world)).collect();
    if cases.is_empty() {
        return Err(Failure::usage(args.nothing()));
    }
    let count = cases.len();
    let reports = prove(cases, args.ranks.is_none())
        .map_err(|fault| Failure::failed(format!("wrong: {fault}")))?;
    for (case, report) in reports.iter().filter(|_| args.ranks.is_some()) {
        say(format_args!("{}\n", describe(case, report)))?;
    }
    let (first, last) = (worlds[0], worlds[worlds.len() - 1]);
    let ranks = if first == last { first.to_string() } else { format!("{first} to {last}") };
    match count {
        1 => say(format_args!("one schedule between {ranks} ranks is right\n")),
        _ => say(format_args!("{count} schedules between {ranks} ranks are right\n")),
    }
}

/// Something to prove.
#[derive(Clone, Debug)]
struct Case {
    op: Collective,
    name: &'static str,
    layout: Layout,
}

impl Args {
    /// What to prove between so many ranks.
    fn cases(&self, world: u32) -> Vec<Case> {
        let mut cases = Vec::new();
        let names =
            algo::NAMES.into_iter().filter(|name| self.algorithm.is_none_or(|it| it == *name));
        for name in names {
            for layout in self.layouts(name, world) {
                for op in operations(world).into_iter().filter(|op| self.wants(*op)) {
                    let known = algo::named(name, &layout);
                    if known.is_ok_and(|it| it.supports(op, world)) {
                        cases.push(Case { op, name, layout: layout.clone() });
                    }
                }
            }
        }
        cases
    }

    fn layouts(&self, name: &str, world: u32) -> Vec<Layout> {
        let cares = algo::by_name(name).is_none();
        let hosts = match self.hosts {
            Some(hosts) => vec![hosts],
            None if cares => vec![2, 3, 8],
            None => vec![1],
        };
        let fits = hosts.into_iter().filter(|hosts| *hosts <= world);
        fits.map(|hosts| Layout::even(world, hosts)).collect()
    }

    fn wants(&self, op: Collective) -> bool {
        self.op.is_none_or(|it| it.name() == op.name())
    }

    /// Why there is nothing to check.
    fn nothing(&self) -> String {
        let (Some(op), Some(name)) = (self.op, self.algorithm) else {
            return "there is no such schedule".to_owned();
        };
        let layout = Layout::even(self.ranks.unwrap_or(8), 1);
        let supporting = case::supporting(op, &layout).join(", ");
        format!("{name} does not support {}; these do: {supporting}", op.name())
    }
}

/// Every operation, with the roots that make a difference: the ends and the middle.
fn operations(world: u32) -> Vec<Collective> {
    let mut operations: Vec<Collective> = Vec::new();
    for root in [0, world / 2, world - 1] {
        let new = |op: &Collective| !operations.contains(op);
        let more: Vec<Collective> = Collective::all(root).into_iter().filter(new).collect();
        operations.extend(more);
    }
    operations
}

/// Proves all cases, the largest first, on all cores. The fault of the smallest world counts.
fn prove(cases: Vec<Case>, tell: bool) -> Result<Vec<(Case, Report)>, Box<Fault>> {
    let progress = Progress::new(cases.len(), tell);
    let queue = Mutex::new(cases);
    let done = Mutex::new((Vec::new(), None::<Box<Fault>>));
    let work = || {
        while let Some(case) = lock(&queue).pop() {
            let algorithm = algo::named(case.name, &case.layout).expect("it was known before");
            let outcome = check::algorithm(&*algorithm, case.op, case.layout.world());
            let mut done = lock(&done);
            match outcome {
                Ok(report) => done.0.push((case, report)),
                Err(fault) => {
                    let smaller = done.1.as_ref().is_none_or(|other| fault.world < other.world);
                    if smaller {
                        done.1 = Some(fault);
                    }
                }
            }
            progress.show(done.0.len());
        }
    };
    let threads = thread::available_parallelism().map_or(1, Into::into);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    progress.end();
    let (mut reports, fault) = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    reports
        .sort_by_key(|(case, _)| (case.op.name(), case.name, case.op.root(), case.layout.count()));
    fault.map_or(Ok(reports), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A line that says how far it is, on a terminal.
struct Progress {
    total: usize,
    shows: bool,
}

impl Progress {
    fn new(total: usize, tell: bool) -> Self {
        Self { total, shows: tell && io::stderr().is_terminal() }
    }

    fn show(&self, done: usize) {
        if self.shows && (done.is_multiple_of(50) || done == self.total) {
            eprint!("\rchecked {done} of {} schedules", self.total);
            let _ = io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.shows {
            eprintln!();
        }
    }
}

fn describe(case: &Case, report: &Report) -> String {
    let Case { op, name, layout } = case;
    let (world, hosts) = (layout.world(), layout.count());
    let place =
        if algo::by_name(name).is_some() { String::new() } else { format!(" on {hosts} hosts") };
    let mut text = format!("{op} by {name} between {world} ranks{place}: {} rounds", report.rounds);
    text += &format!(", {} messages, a rank sends up to {} chunks", report.messages, report.sent);
    if report.scratch > 0 {
        text += &format!(", {} chunks of scratch", report.scratch);
    }
    if let Some(in_flight) = report.in_flight {
        text += &format!(", up to {in_flight} messages under way between two ranks");
    }
    if op.combines() {
        text += match report.order {
            Order::Ranks => ", combined in the order of ranks",
            Order::Turned => ", combined in the order of ranks, beginning anywhere",
            Order::Mixed => ", combined in an order of its own",
        };
    }
    text
}

const EXAMPLES: &str = "\
Examples:
  consort plan check --all
  consort plan check all_reduce --algorithm ring -n 100
  consort plan check -n 24 --hosts 3

Exit code: 0, 1 with the operation, ranks, round and chunk if one is wrong, 2 for wrong usage.";
