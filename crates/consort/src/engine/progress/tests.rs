//! What wakes the thread where it sleeps. The places here let it sleep far longer than it wants to, so
//! that a lost wake-up is noticed.

use std::pin::Pin;
use std::sync::Condvar;

use super::*;
use crate::Work;
use crate::backend::{Host, Terms};
use crate::call::Call;
use crate::engine::company::tests::Member;
use crate::engine::lookout::Lookout;
use crate::engine::pace::{Notes, wait_once};
use crate::engine::post::Post;
use crate::engine::queue::Queue;
use crate::engine::road::Way;
use crate::engine::sleep::Sleep;
use crate::error::Result;
use crate::group::Group;

/// A place to sleep soundly.
#[derive(Debug, Default)]
pub(in crate::engine) struct Dormitory {
    state: Mutex<Sleepers>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    rings: u64,
    asleep: usize,
}

impl Dormitory {
    fn state(&self) -> MutexGuard<'_, Sleepers> {
        self.state.lock().unwrap()
    }
}

impl Sleep for Dormitory {
    fn doze(&self, look: &mut dyn FnMut() -> bool, limit: Duration) {
        let seen = self.state().rings;
        if look() {
            return;
        }
        // Who takes a nap has something else to look after.
        let limit = if limit > Duration::from_millis(1) { LONG } else { limit };
        let mut state = self.state();
        state.asleep += 1;
        let slept = self.rung.wait_timeout_while(state, limit, |state| state.rings == seen);
        slept.unwrap().0.asleep -= 1;
    }

    fn ring(&self) {
        self.state().rings += 1;
        self.rung.notify_all();
    }
}

/// A way for calls that only wait until every rank has made them.
#[derive(Debug)]
struct Meeting {
    me: usize,
    number: u64,
    /// How many calls each rank has made.
    came: Arc<Mutex<Vec<u64>>>,
    lookout: Lookout,
    place: Arc<Dormitory>,
}

impl Meeting {
    fn come(&mut self) {
        self.number += 1;
        self.came.lock().unwrap()[self.me] = self.number;
        self.place.ring();
    }

    fn is_over(&self) -> bool {
        self.came.lock().unwrap().iter().all(|&calls| calls >= self.number)
    }
}

impl Way for Meeting {
    fn run(&mut self, _call: &Call<'_>, _terms: Terms, _line: Option<&Queue>) -> Result<u64> {
        self.come();
        while !self.is_over() {
            self.place.doze(&mut || self.is_over(), LONG);
        }
        Ok(self.number)
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        _call: &'a Call<'_>,
        _terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(async {
            self.come();
            while !self.is_over() {
                wait_once().await;
            }
            notes.has_moved();
            Ok(())
        })
    }

    fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.place.clone()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {}
}

/// Two ranks of a group whose threads sleep in this place.
fn pair(place: &Arc<Dormitory>) -> [Group; 2] {
    let came = Arc::new(Mutex::new(vec![0; 2]));
    let members: [Member; 2] = Member::several(2).try_into().expect("there are two");
    let mut rank = 0;
    members.map(|member| {
        let fake = Group::fake(rank, 2).unwrap();
        let (lookout, me, patience) = (member.lookout(), rank as usize, Patience::for_ranks(2, 1));
        rank += 1;
        let rest: Arc<dyn Sleep> = place.clone();
        let nobody = [None, None].into_iter();
        let post = Post::over(lookout.clone(), nobody, rest.into(), patience);
        let (came, place) = (came.clone(), place.clone());
        let way: Box<dyn Way> = Box::new(Meeting { me, number: 0, came, lookout, place });
        let host = Host::new("way", way.into(), Arc::new(post), patience, fake.shared.job.clone());
        fake.with_backend(Arc::new(host))
    })
}

/// Waits until something is so, without doing anything for it.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG / 2, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn until_done<T>(works: &[&Work<T>]) {
    until("the thread sleeps on", || works.iter().all(|work| work.is_done()));
}

#[test]
fn what_another_rank_does_wakes_the_thread_where_it_sleeps() {
    let place = Arc::new(Dormitory::default());
    let [one, other] = pair(&place);
    for _ in 0..10 {
        let begun = one.barrier_async().unwrap();
        until("the thread stays awake", || place.state().asleep > 0);
        other.barrier().unwrap();
        until_done(&[&begun]);
    }
}

#[test]
fn whoever_has_something_for_the_thread_wakes_it_where_it_sleeps() {
    let place = Arc::new(Dormitory::default());
    let [one, other] = pair(&place);
    let begun = one.barrier_async().unwrap();
    for _ in 0..10 {
        until("the thread stays awake", || place.state().asleep > 0);
        let further = pair(&place);
        let works = further.each_ref().map(|group| group.barrier_async().unwrap());
        until_done(&works.each_ref());
    }
    other.barrier().unwrap();
    until_done(&[&begun]);
}

#[test]
fn the_thread_notices_what_happens_in_several_places() {
    let places = [(); 2].map(|()| Arc::new(Dormitory::default()));
    let pairs = places.each_ref().map(pair);
    let begun = pairs.each_ref().map(|[one, _]| one.barrier_async().unwrap());
    for [_, other] in &pairs {
        other.barrier().unwrap();
    }
    until_done(&begun.each_ref());
}

const LONG: Duration = Duration::from_secs(60);
