//! A rank's side: it works until that fails, tells what it was told, and goes on with whoever is left.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use consort::{Builder, Error, Group, Result, Transport};
use consort_testkit::{Context, Kind};
use serde::{Deserialize, Serialize};

use crate::numbers::{CALLS, Style, round};

/// What a rank tells at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Story {
    /// How many calls it had done when one failed; those of a round count together.
    pub(crate) done: u64,
    pub(crate) failure: Failure,
    /// When it had that in its hands, since 1970.
    pub(crate) heard: Duration,
    pub(crate) sequel: Sequel,
}

/// An error of a call, taken to pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) variant: String,
    pub(crate) group: String,
    /// Whom it names.
    pub(crate) ranks: Vec<u32>,
    /// Who has found it.
    pub(crate) by: u32,
    /// In which call of that one, and after how long.
    pub(crate) call: String,
    pub(crate) number: u64,
    pub(crate) waited: Duration,
    /// Of whom it tells more, and what their processes are.
    pub(crate) processes: Vec<(u32, u32)>,
    pub(crate) text: String,
}

/// What came after the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sequel {
    /// A smaller group, and a digest of what it computed.
    Smaller { name: String, ranks: Vec<u32>, digest: String },
    /// The others, who have left this rank out.
    LeftOut { others: Vec<u32> },
    /// There is no smaller group; why.
    Refused { kind: String, text: String },
}

/// How the ranks of a scenario live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) style: Style,
    /// How long a call may take.
    pub(crate) patience: Duration,
    /// With whom rank 0 does not want to go on.
    pub(crate) without: &'static [u32],
}

impl Terms {
    /// Calls that nobody is late for.
    pub(crate) fn of(style: Style) -> Self {
        Self { style, patience: LONG, without: &[] }
    }
}

/// A whole life: meets the others in a file that all hosts see, works until a call fails, and goes on with
/// a smaller group.
pub(crate) fn live(ctx: &Context, terms: Terms) -> Story {
    live_in(ctx, &met_in(&ctx.dir(), ctx).init().unwrap(), terms)
}

/// The same from the meeting on.
pub(crate) fn live_in(ctx: &Context, group: &Group, terms: Terms) -> Story {
    work(group, terms.style, 0..WARM);
    ctx.reach(AT_WORK);
    let broken = work_until_it_fails(ctx, group, terms, WARM);
    let without = if ctx.rank() == 0 { terms.without } else { &[] };
    let story = broken.and_then(group.shrink_without(without), terms.style);
    ctx.reach(OVER);
    story
}

/// A builder for this rank, that meets the others in a file in this folder.
pub(crate) fn met_in(folder: &Path, ctx: &Context) -> Builder {
    let (rank, world) = (ctx.rank(), ctx.world());
    let path = folder.join("meeting");
    let address = format!("file://{}?rank={rank}&world={world}", path.display());
    let builder = Builder::new().address(&address).unwrap().timeout(LONG);
    match ctx.kind() {
        Kind::Tcp => builder.transport(Transport::Tcp),
        Kind::Mixed => builder.interface("eth0"),
        _ => builder,
    }
}

/// What a rank knows when a call has failed.
#[derive(Debug)]
pub(crate) struct Broken {
    done: u64,
    failure: Failure,
    heard: Duration,
}

impl Broken {
    /// What came after it.
    pub(crate) fn and_then(self, smaller: Result<Group>, style: Style) -> Story {
        let Self { done, failure, heard } = self;
        Story { done, failure, heard, sequel: Sequel::of(smaller, style) }
    }
}

/// Works, after so many rounds, until a call fails. All later ones have to say the same.
pub(crate) fn work_until_it_fails(
    ctx: &Context,
    group: &Group,
    terms: Terms,
    rounds: u64,
) -> Broken {
    let (hasty, mut digest) = (group.within(terms.patience), blake3::Hasher::new());
    let mut fails = |number| Some((number, round(&hasty, terms.style, number, &mut digest).err()?));
    let (number, error) = (rounds..).find_map(&mut fails).expect("numbers do not end");
    let (heard, failure) = (since_1970(), Failure::of(&error));
    for later in [group.error().unwrap(), group.barrier().unwrap_err()] {
        assert_eq!(later.to_string(), failure.text, "a group that has ended stays so");
    }
    ctx.reach(TOLD);
    Broken { done: number * CALLS, failure, heard }
}

/// Rounds without a flaw. What all ranks have to have the same of, in short.
pub(crate) fn work(group: &Group, style: Style, rounds: std::ops::Range<u64>) -> String {
    let mut digest = blake3::Hasher::new();
    rounds.for_each(|number| round(group, style, number, &mut digest).unwrap());
    digest.finalize().to_string()
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        let text = error.to_string();
        let (variant, group, ranks, by, call, number, waited, known) = match error {
            Error::PeerLost { group, rank, by, call, number, waited, whereabouts } => {
                ("PeerLost", group, vec![*rank], *by, call, *number, *waited, whereabouts)
            }
            Error::Late { group, missing, by, call, number, waited, whereabouts } => {
                ("Late", group, missing.clone(), *by, call, *number, *waited, whereabouts)
            }
            error => panic!("{error}"),
        };
        let (variant, group, call) = (variant.to_owned(), group.to_string(), call.to_string());
        let processes = known.iter().map(|it| (it.rank, it.process)).collect();
        Self { variant, group, ranks, by, call, number, waited, processes, text }
    }
}

impl Sequel {
    pub(crate) fn of(smaller: Result<Group>, style: Style) -> Self {
        match smaller {
            Ok(group) => {
                let digest = work(&group, style, 0..AFTERWARDS);
                let (name, ranks) = (group.name().to_owned(), group.world_ranks().to_vec());
                Self::Smaller { name, ranks, digest }
            }
            Err(Error::LeftOut { others, .. }) => Self::LeftOut { others },
            Err(error) => {
                Self::Refused { kind: format!("{:?}", error.kind()), text: error.to_string() }
            }
        }
    }
}

/// The clock that is the same for all processes of the machine, whatever they think of the others.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Where a rank is when all its buffers are made and its connections stand.
pub(crate) const AT_WORK: &str = "at work";
/// Where it is when a call has failed.
pub(crate) const TOLD: &str = "told";
/// Where it is when it has computed with those who are left, or knows that it cannot.
pub(crate) const OVER: &str = "over";

/// How many rounds come before the fault, and how many after it.
pub(crate) const WARM: u64 = 4;
const AFTERWARDS: u64 = 4;
/// Nobody waits that long for what goes wrong.
pub(crate) const LONG: Duration = Duration::from_secs(60);
