//! Ranks of whom one gets something else than the others.

use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use consort_sys::wait::Patience;

use super::*;
use crate::backend::Host;
use crate::engine::lane::Lane;
use crate::engine::lane::tests::lanes;
use crate::engine::progress::tests::Dormitory;
use crate::engine::road::Way;
use crate::engine::sleep::Sleep;
use crate::error::Error;
use crate::group::{Group, Job as Membership};
use crate::{ReduceOp, Work};

/// A way whose memory fails: in one of its calls a bit of the result turns over.
#[derive(Debug)]
struct Faulty {
    lane: Lane,
    /// How many calls go well.
    well: u32,
    place: Arc<Dormitory>,
}

impl Faulty {
    fn fail(&mut self, call: &Call<'_>) {
        if let (0, Call::AllReduce { output, .. }) = (self.well, call) {
            let byte = output.slice(5..6);
            byte.fill(Source::from(byte).to_vec()[0] ^ 8);
        }
        self.well = self.well.wrapping_sub(1);
    }
}

impl Way for Faulty {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        let number = self.lane.run(call, terms, line)?;
        self.fail(call);
        Ok(number)
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(async move {
            self.lane.run_elsewhere(call, terms, notes).await?;
            self.fail(call);
            Ok(())
        })
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.place.clone()
    }

    fn lookout(&self) -> &Lookout {
        self.lane.lookout()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {
        // The other ranks may still read it.
        self.lane.abandon();
    }
}

/// What so many ranks make of this, each on a thread. They compare every four calls; the memory of
/// `faulty` fails in call 6.
fn on_ranks<T: Send>(
    world: usize,
    faulty: Option<usize>,
    act: impl Fn(&Group) -> T + Sync,
) -> Vec<T> {
    let (lanes, _) = lanes(world);
    let group = |(rank, lane): (usize, Lane)| {
        let fake = Group::fake(rank as u32, world as u32).unwrap();
        let (post, patience) = (lane.post().clone(), Patience::for_ranks(8, 1));
        // The first comparison is a call too.
        let well = if faulty == Some(rank) { 6 } else { u32::MAX };
        let way: Box<dyn Way> = Box::new(Faulty { lane, well, place: Arc::default() });
        let every = NonZeroU32::new(4).unwrap();
        let road = Road::Audited(Box::new(Audited::new(way.into(), every)));
        let host = Host::new("way", road, post, patience, fake.shared.job.clone());
        fake.with_backend(Arc::new(host)).within(LONG)
    };
    let groups: Vec<Group> = lanes.into_iter().enumerate().map(group).collect();
    thread::scope(|scope| {
        let act = &act;
        let ranks: Vec<_> =
            groups.into_iter().map(|group| scope.spawn(move || act(&group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Makes blocking calls until one fails. Says how many went well.
fn call_on(group: &Group) -> (u64, Error) {
    for number in 1.. {
        let mut numbers = [f64::from(group.rank().get()), 2.0];
        if let Err(error) = group.all_reduce(&mut numbers, ReduceOp::Sum) {
            return (number, error);
        }
    }
    unreachable!("numbers do not end")
}

#[test]
fn the_rank_that_got_something_else_is_named_to_all() {
    for (number, error) in on_ranks(3, Some(1), call_on) {
        assert_eq!(number, 8);
        assert!(matches!(error, Error::Diverged { first: 5, last: 8, .. }), "{error}");
        let words = "the results of calls 5 to 8 are not the same on all ranks, and rank 1 differs \
                     from the others";
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn of_two_ranks_either_may_be_wrong() {
    for (_, error) in on_ranks(2, Some(0), call_on) {
        assert!(matches!(&error, Error::Diverged { ranks, .. } if *ranks == [0, 1]), "{error}");
        assert!(error.to_string().contains("ranks [0, 1] differ"), "{error}");
    }
}

#[test]
fn results_of_calls_in_the_background_are_compared_as_well() {
    let errors = on_ranks(3, Some(2), |group| {
        let add = |_| group.all_reduce_async(vec![1.5, 2.5], ReduceOp::Sum).unwrap();
        let works: Vec<Work<Vec<f64>>> = (0..10).map(add).collect();
        // Some wait, and so carry calls out themselves.
        if group.rank() == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        let results: Vec<_> = works.into_iter().map(Work::wait).collect();
        assert!(results[..7].iter().all(Result::is_ok));
        let failed = results[7..].iter();
        failed.map(|result| result.as_ref().unwrap_err().to_string()).collect::<Vec<String>>()
    });
    let errors: Vec<String> = errors.concat();
    assert_eq!(errors.len(), 9);
    for error in errors {
        assert!(error.contains("of calls 5 to 8") && error.contains("rank 2 differs"), "{error}");
    }
}

#[test]
fn nothing_is_said_of_ranks_that_agree_and_comparisons_are_nobodys_calls() {
    let calls = on_ranks(3, None, |group| {
        for root in [0_u32, 1, 2, 0, 1] {
            let mut gathered = [0; 3];
            group.all_gather(&[root + group.rank().get()], &mut gathered).unwrap();
            group.broadcast(&mut gathered, root).unwrap();
            assert_eq!(gathered, [root, root + 1, root + 2]);
            let work = group.all_reduce_async(vec![root], ReduceOp::Max).unwrap();
            group.barrier().unwrap();
            assert_eq!(work.wait().unwrap(), [root]);
        }
        group.calls()
    });
    assert_eq!(calls, [20, 20, 20]);
}

#[test]
fn whoever_differs_from_most_is_a_stranger_and_without_most_everyone_is() {
    assert_eq!(strangers(&[7]), []);
    assert_eq!(strangers(&[7, 7, 7]), []);
    assert_eq!(strangers(&[7, 8]), [0, 1]);
    assert_eq!(strangers(&[8, 7, 7]), [0]);
    assert_eq!(strangers(&[7, 1, 7, 2, 7]), [1, 3]);
    assert_eq!(strangers(&[1, 2, 3]), [0, 1, 2]);
    assert_eq!(strangers(&[1, 1, 2, 2]), [0, 1, 2, 3]);
}

#[test]
fn only_calls_that_give_all_ranks_the_same_are_compared_and_all_are_counted() {
    let every = NonZeroU32::new(2).unwrap();
    let mut audit = Audit { every, calls: 0, digest: 0, first: None };
    let mut bytes = [1_u8, 2, 3, 4];
    let mut broadcast = |audit: &mut Audit| {
        let buffer = Target::from(&mut bytes[..]);
        audit.note(&Call::Broadcast { dtype: Dtype::U8, root: 0.into(), buffer })
    };
    assert_eq!(audit.note(&Call::Barrier), None);
    assert_eq!(broadcast(&mut audit), Some(2..=2));
    assert_eq!(broadcast(&mut audit), None);
    let digest = audit.digest;
    assert_eq!(audit.note(&Call::Barrier), Some(3..=4));
    assert_eq!(audit.digest, digest);
    assert_eq!(audit.note(&Call::Barrier), None);
    assert_eq!(audit.note(&Call::Barrier), None);
}

#[test]
fn a_digest_depends_on_every_result_and_on_their_order() {
    let digest = |results: &[u32]| results.iter().fold(0, |digest, &sum| mix(digest, sum));
    assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
    assert_ne!(digest(&[1]), digest(&[1, 1]));
    assert_ne!(digest(&[0]), digest(&[0, 0]));
}

const LONG: Duration = Duration::from_secs(60);
