//! Groups whose calls go another way than over a board of their own.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::wait::Patience;

use super::*;
use crate::backend::Host;
use crate::engine::lane::tests::lanes;
use crate::engine::progress::tests::Dormitory;
use crate::error::Error;
use crate::group::Group;
use crate::{ReduceOp, Work};

/// A way that keeps a diary, and has a lane do the work: its calls wait for steps, and nothing ever
/// happens in its place.
#[derive(Debug)]
struct Detour {
    lane: Lane,
    diary: Diary,
    place: Arc<Dormitory>,
}

type Diary = Arc<Mutex<Vec<&'static str>>>;

impl Detour {
    fn note(&self, what: &'static str) {
        self.diary.lock().unwrap().push(what);
    }
}

impl Way for Detour {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        self.note("run");
        self.lane.run(call, terms, line)
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        self.note("run elsewhere");
        Box::pin(self.lane.run_elsewhere(call, terms, notes))
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.place.clone()
    }

    fn lookout(&self) -> &Lookout {
        self.lane.lookout()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {
        self.note("leave");
        // The other rank may still read it.
        self.lane.abandon();
    }
}

/// Two ranks in one process, and what their ways note.
fn groups() -> [(Group, Diary); 2] {
    let (lanes, _) = lanes(2);
    let group = |(rank, lane): (u32, Lane)| {
        let fake = Group::fake(rank, 2).unwrap();
        let (post, patience) = (lane.post().clone(), Patience::for_ranks(8, 1));
        let diary = Diary::default();
        let way: Box<dyn Way> =
            Box::new(Detour { lane, diary: diary.clone(), place: Arc::default() });
        let host = Host::new("way", way.into(), post, patience, fake.shared.job.clone());
        (fake.with_backend(Arc::new(host)), diary)
    };
    let groups: Vec<_> = (0..).zip(lanes).map(group).collect();
    groups.try_into().expect("there are two")
}

/// What both ranks do, each on a thread.
fn on_both(act: impl Fn(&Group) + Sync) -> [Vec<&'static str>; 2] {
    let groups = groups();
    let diaries = groups.each_ref().map(|(_, diary)| diary.clone());
    thread::scope(|scope| {
        for (group, _) in groups {
            let act = &act;
            scope.spawn(move || act(&group));
        }
    });
    diaries.map(|diary| once_left(&diary))
}

/// The diary of a way that is left, perhaps by the progress thread.
fn once_left(diary: &Diary) -> Vec<&'static str> {
    let begun = Instant::now();
    while !diary.lock().unwrap().contains(&"leave") {
        assert!(begun.elapsed() < LONG, "nobody has left");
        thread::sleep(Duration::from_millis(1));
    }
    diary.lock().unwrap().clone()
}

#[test]
fn blocking_calls_take_another_way_and_it_is_left_with_the_group() {
    let diaries = on_both(|group| {
        let mut numbers = [group.rank().get() + 1, 10];
        group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap();
        assert_eq!(numbers, [3, 20]);
        group.barrier().unwrap();
        assert_eq!(group.calls(), 2);
    });
    assert_eq!(diaries, [["run", "run", "leave"]; 2]);
}

#[test]
fn calls_in_the_background_take_another_way_in_their_order_and_it_is_left_after_the_last() {
    let diaries = on_both(|group| {
        let mine = group.rank().get() + 1;
        let add = |factor: u32| group.all_reduce_async(vec![mine * factor], ReduceOp::Sum).unwrap();
        let works: Vec<Work<Vec<u32>>> = (1..=3).map(add).collect();
        let mut last = [mine * 4];
        group.all_reduce(&mut last, ReduceOp::Sum).unwrap();
        let sums: Vec<u32> = works.into_iter().map(|work| work.wait().unwrap()[0]).collect();
        assert_eq!((sums, last), (vec![3, 6, 9], [12]));
        drop(group.barrier_async().unwrap());
    });
    for diary in diaries {
        assert_eq!(diary.len(), 6, "{diary:?}");
        assert_eq!(diary.iter().filter(|&&it| it == "leave").count(), 1, "{diary:?}");
    }
}

#[test]
fn a_group_on_another_way_ends_for_all_ranks() {
    on_both(|group| {
        if group.rank() == 0 {
            group.abort("enough");
        }
        let error = group.within(LONG).barrier().unwrap_err();
        assert!(matches!(error, Error::Aborted { by: 0, .. }), "{error}");
    });
}

const LONG: Duration = Duration::from_secs(60);
