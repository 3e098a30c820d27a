//! The test's side: does the fault, and looks at what every rank has to tell.

use std::time::Duration;

use consort_testkit::{Context, Job, Outcome, Ranks};

use crate::life::{AT_WORK, Failure, Sequel, Story, since_1970};
use crate::numbers::CALLS;
use crate::remains::Remains;
use crate::scenario::Scenario;

/// Ranks that are at work, and something that is done to them.
#[derive(Debug)]
pub(crate) struct Trial {
    scenario: Scenario,
    pub(crate) job: Job<Story>,
    remains: Remains,
    /// When it was done.
    harmed: Duration,
}

/// What became of all ranks.
#[derive(Debug)]
pub(crate) struct End {
    scenario: Scenario,
    harmed: Duration,
    processes: Vec<u32>,
    outcomes: Vec<Outcome<Story>>,
}

impl Trial {
    /// Starts so many ranks, which are all at work when this returns.
    pub(crate) fn begin(
        scenario: Scenario,
        ranks: Ranks,
        world: u32,
        life: impl Fn(&Context) -> Story + Sync,
    ) -> Self {
        Self::watch(scenario, ranks.start(life), world)
    }

    /// Takes over when the first so many of them have been told what they need to work.
    pub(crate) fn watch(scenario: Scenario, mut job: Job<Story>, world: u32) -> Self {
        (0..world).for_each(|rank| job.await_point(rank, AT_WORK));
        let remains = Remains::of(&job, world);
        Self { scenario, job, remains, harmed: Duration::ZERO }
    }

    /// Does the harm, and asserts that it was done.
    pub(crate) fn harm(&mut self, harm: impl FnOnce(&mut Job<Story>)) {
        self.harmed = since_1970();
        harm(&mut self.job);
    }

    /// Waits until all ranks have come to a point.
    pub(crate) fn await_all(&mut self, ranks: &[u32], point: &str) {
        ranks.iter().for_each(|&rank| self.job.await_point(rank, point));
    }

    /// All end by themselves, and nothing is left of them.
    pub(crate) fn end(mut self) -> End {
        let outcomes = self.job.wait();
        let processes = self.remains.processes().to_vec();
        self.remains.are_none(self.job);
        End { scenario: self.scenario, harmed: self.harmed, processes, outcomes }
    }
}

impl End {
    /// How the rank has ended to which it was done.
    pub(crate) fn came_to(&self, rank: u32, end: &Outcome<Story>) -> &Self {
        assert_eq!(&self.outcomes[rank as usize], end, "rank {rank}");
        self
    }

    /// These ranks were all told the same: that this happened to one of these, in a call that one of them
    /// was making.
    pub(crate) fn were_told(&self, ranks: &[u32], variant: &str, of: &[u32]) -> &Self {
        let first = &self.story(ranks[0]).failure;
        for &rank in ranks {
            let it = &self.story(rank).failure;
            assert_eq!(it, first, "rank {rank} and rank {} were told different things", ranks[0]);
        }
        self.were_each_told(ranks, variant, of)
    }

    /// These ranks were told that this happened to one of these, in a call that one of them was making;
    /// where they cannot agree on who was first, perhaps each something else.
    pub(crate) fn were_each_told(&self, ranks: &[u32], variant: &str, of: &[u32]) -> &Self {
        for &rank in ranks {
            let failure = &self.story(rank).failure;
            let Failure { variant: said, group, ranks: named, by, call, number, text, .. } =
                failure;
            assert_eq!((said.as_str(), group.as_str()), (variant, "world"), "rank {rank}: {text}");
            assert!(named.len() == 1 && of.contains(&named[0]), "rank {rank}: {text}");
            assert!(ranks.contains(by) && !of.contains(by), "rank {rank}: {text}");
            let its = (named[0], self.processes[named[0] as usize]);
            assert!(
                failure.processes.contains(&its),
                "{its:?} is not told of: rank {rank}: {text}"
            );
            let done = self.story(*by).done;
            let is_its = (done + 1..=done + CALLS).contains(number);
            assert!(is_its, "rank {rank}: {text}, which had done {done} calls");
            let is_a_call = ["all_reduce(sum) of", "broadcast of", "all_gather of"];
            assert!(is_a_call.iter().any(|start| call.starts_with(start)), "rank {rank}: {text}");
        }
        self
    }

    /// There was no smaller group for them, for this reason.
    pub(crate) fn were_refused(&self, ranks: &[u32], reason: &str) -> &Self {
        for &rank in ranks {
            match &self.story(rank).sequel {
                Sequel::Refused { text, .. } if text.contains(reason) => {}
                sequel => panic!("rank {rank}: {sequel:?}"),
            }
        }
        self
    }

    /// They were told so after this time at the most, which is printed, and one of them waited for so long
    /// at the least.
    pub(crate) fn heard_within(&self, ranks: &[u32], least: Duration, most: Duration) -> &Self {
        let heard = |&rank: &u32| self.story(rank).heard.saturating_sub(self.harmed);
        let mut heard: Vec<Duration> = ranks.iter().map(heard).collect();
        heard.sort_unstable();
        let (median, last) = (heard[heard.len() / 2], heard[heard.len() - 1]);
        let name = self.scenario.name();
        println!("{name} heard after {:>9.1?} {median:>9.1?} {last:>9.1?}", heard[0]);
        assert!(last < most, "it took {last:?}");
        let waited = self.story(ranks[0]).failure.waited;
        assert!(waited >= least, "who gave up had waited for {waited:?}");
        self
    }

    /// They went on together, and computed the same.
    pub(crate) fn went_on(&self, ranks: &[u32]) -> &Self {
        let Sequel::Smaller { digest: first, .. } = &self.story(ranks[0]).sequel else {
            panic!("rank {}: {:?}", ranks[0], self.story(ranks[0]).sequel)
        };
        let (name, digest) = ("world~1".to_owned(), first.clone());
        let expected = Sequel::Smaller { name, ranks: ranks.to_vec(), digest };
        for &rank in ranks {
            assert_eq!(self.story(rank).sequel, expected, "rank {rank}");
        }
        self
    }

    /// What a rank has told.
    pub(crate) fn story(&self, rank: u32) -> &Story {
        match &self.outcomes[rank as usize] {
            Outcome::Done(story) => story,
            outcome => panic!("rank {rank}: {outcome:?}"),
        }
    }
}
