//! Rounds over real stores: nodes as threads, each with its own connection, in real time.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic and look at the clock"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use consort_store::{
    Cause, Deadline, Ending, Error, JoinError, MemStore, Missing, News, Node, NodeId, Rendezvous,
    Reply, Request, Round, RoundOptions, Secret, Server, Store, TcpStore,
};

#[test]
fn nodes_meet_and_agree_on_ranks() {
    let place = Place::new();
    let nodes: Vec<_> = (0..3).map(|id| place.node(id, options(3, 3, 0))).collect();
    let rounds = all(nodes, |mut node| join(&mut node).unwrap());
    for (id, round) in (0..).zip(&rounds) {
        assert_eq!(round.nodes, rounds[0].nodes);
        assert_eq!((round.place, round.epoch, round.world()), (id, 0, 1 + 2 + 3));
        assert_eq!(round.first_rank(), [0, 1, 3][id]);
    }
}

#[test]
fn a_late_node_is_taken_in_by_the_next_round() {
    let place = Place::new();
    let mut first = place.node(0, options(1, 2, 0));
    let round = join(&mut first).unwrap();
    assert_eq!(round.nodes.len(), 1);
    let mut late = place.node(1, options(1, 2, 0));
    let late = std::thread::spawn(move || join(&mut late).unwrap());
    let news = watch(&mut first, &round);
    assert_eq!(news, News::Round(Cause::Came { node: "host1 (127.0.0.1)".to_owned() }));
    let second = join(&mut first).unwrap();
    assert_eq!((second.epoch, second.nodes.len(), second.restarts), (1, 2, 0));
    assert_eq!(late.join().unwrap().nodes, second.nodes);
}

#[test]
fn a_clone_that_watches_leaves_the_joiner_free_to_join_the_next_round() {
    let place = Place::new();
    let mut first = place.node(0, options(1, 2, 0));
    let round = join(&mut first).unwrap();
    let mut watcher = first.clone();
    let mut late = place.node(1, options(1, 2, 0));
    let late = std::thread::spawn(move || join(&mut late).unwrap());
    assert!(matches!(watch(&mut watcher, &round), News::Round(_)));
    assert_eq!(join(&mut first).unwrap().epoch, 1);
    assert_eq!(late.join().unwrap().epoch, 1);
}

#[test]
fn a_node_whose_heart_stops_is_lost_and_named() {
    let place = Place::new();
    let nodes: Vec<_> = (0..3).map(|id| place.node(id, options(2, 3, 0))).collect();
    let mut nodes = all(nodes, |mut node| {
        let round = join(&mut node).unwrap();
        (node, round)
    });
    drop(nodes.remove(1));
    let started = Instant::now();
    let rounds = all(nodes, |(mut node, round)| {
        let news = watch(&mut node, &round);
        let News::Round(Cause::Silent { node: silent, since }) = news else { panic!("{news:?}") };
        assert_eq!(silent, "host1 (127.0.0.1)");
        assert!(since >= LIVENESS);
        join(&mut node).unwrap()
    });
    assert!(started.elapsed() < LIVENESS * 10);
    for round in rounds {
        assert_eq!((round.epoch, round.world(), round.restarts), (1, 1 + 3, 0));
    }
}

#[test]
fn a_node_that_leaves_is_missed_at_once() {
    let place = Place::new();
    let options = RoundOptions { liveness: Duration::from_secs(60), ..options(2, 2, 0) };
    let nodes: Vec<_> = (0..2).map(|id| place.node(id, options.clone())).collect();
    let mut nodes = all(nodes, |mut node| {
        let round = join(&mut node).unwrap();
        (node, round)
    });
    let (mut leaving, _) = nodes.remove(1);
    let (mut staying, round) = nodes.remove(0);
    leaving.leave(Deadline::never()).unwrap();
    let left = Cause::Left { node: "host1 (127.0.0.1)".to_owned() };
    assert_eq!(watch(&mut staying, &round), News::Over(Ending::TooFew(left)));
}

#[test]
fn a_failure_calls_rounds_until_restarts_are_used_up() {
    let place = Place::new();
    let nodes: Vec<_> = (0..2).map(|id| place.node(id, options(2, 2, 1))).collect();
    let ends = all(nodes, |mut node| {
        // A node that is slow to look may find a round already failed, and the next one called.
        let mut least = 0;
        loop {
            let round = match join(&mut node) {
                Ok(round) => round,
                Err(Error::Join(JoinError::Over(ending))) => return ending,
                Err(other) => panic!("{other}"),
            };
            assert!((least..=1).contains(&round.restarts), "{round:?}");
            least = round.restarts + 1;
            if round.place == 0 {
                node.failed(&round, format!("failure {least}").as_bytes()).unwrap();
            }
            match watch(&mut node, &round) {
                News::Over(ending) => return ending,
                news => assert_eq!(
                    news,
                    News::Round(Cause::Failed { node: "host0 (127.0.0.1)".to_owned() })
                ),
            }
        }
    });
    assert_eq!(ends, vec![Ending::Failed(b"failure 2".to_vec()); 2]);
}

#[test]
fn the_job_is_over_when_all_nodes_have_finished() {
    let place = Place::new();
    let nodes: Vec<_> = (0..3).map(|id| place.node(id, options(3, 3, 0))).collect();
    let ends = all(nodes, |mut node| {
        let round = join(&mut node).unwrap();
        node.finished(&round).unwrap();
        watch(&mut node, &round)
    });
    assert_eq!(ends, vec![News::Over(Ending::Finished); 3]);
    let error = join(&mut place.node(7, options(3, 3, 0))).unwrap_err();
    assert!(matches!(error, Error::Join(JoinError::Over(Ending::Finished))), "{error}");
}

#[test]
fn a_node_started_differently_is_told_and_disturbs_nobody() {
    let place = Place::new();
    let mut first = place.node(0, options(1, 2, 0));
    let round = join(&mut first).unwrap();
    let error = join(&mut place.node(1, options(2, 2, 0))).unwrap_err().to_string();
    assert!(error.contains("nodes 2:2 here, 1:2 in the job"), "{error}");
    let news = first.watch(&round, Deadline::after(Duration::from_millis(200))).unwrap();
    assert_eq!(news, News::Nothing);
}

#[test]
fn a_node_that_dies_before_the_round_closes_gives_its_seat_up() {
    let place = Place::new();
    let mut first = place.node(0, options(3, 3, 0));
    let mut dead = place.node(1, options(3, 3, 0));
    step(&mut first);
    step(&mut dead);
    drop(dead);
    // Its place can be had again once its heart has been silent for long enough.
    let first = std::thread::spawn(move || join(&mut first).unwrap());
    let mut again = place.node_as(7, 1, options(3, 3, 0));
    until_some(|| match again.join("job", Deadline::after(Duration::from_millis(100))) {
        Err(Error::Join(JoinError::RankTaken { .. })) => None,
        joined => Some(joined.unwrap()),
    });
    let third = place.node(2, options(3, 3, 0));
    let mut rounds = all(vec![again, third], |mut node| join(&mut node).unwrap());
    rounds.push(first.join().unwrap());
    for round in rounds {
        let hosts: Vec<&str> = round.nodes.iter().map(|node| node.host.as_str()).collect();
        assert_eq!((round.epoch, hosts), (0, vec!["host0", "host7", "host2"]));
    }
}

#[test]
fn of_two_nodes_whose_ranks_fail_the_first_to_say_so_is_heard() {
    let place = Place::new();
    let nodes: Vec<_> = (0..2).map(|id| place.node(id, options(2, 2, 0))).collect();
    let mut nodes = all(nodes, |mut node| {
        let round = join(&mut node).unwrap();
        (node, round)
    });
    let (mut follower, round) = nodes.remove(0);
    let (mut first, _) = nodes.remove(0);
    first.failing(&round).unwrap();
    follower.failing(&round).unwrap();
    follower.failed(&round, b"lost my peer").unwrap();
    first.failed(&round, b"no data").unwrap();
    let ending = Ending::Failed(b"no data".to_vec());
    assert_eq!(watch(&mut follower, &round), News::Over(ending.clone()));
    assert_eq!(watch(&mut first, &round), News::Over(ending));
}

#[test]
fn who_holds_the_store_ends_the_job_and_goes_after_the_others() {
    let place = Place::new();
    let mut holder = place.node(0, options(1, 3, 0));
    let mut other = place.node(1, options(1, 3, 0));
    step(&mut holder);
    step(&mut other);
    let soon = || Deadline::after(Duration::from_millis(100));
    assert!(holder.see_off(soon()).unwrap(), "the job goes on: nobody is seen off");
    // The end may have been heard, or made, by another thread of the holder.
    holder.clone().close("it has to go", Deadline::never()).unwrap();
    holder.depart().unwrap();
    assert!(!holder.see_off(soon()).unwrap());
    let reason = "it has to go".to_owned();
    let closed = Ending::Closed { node: "host0 (127.0.0.1)".to_owned(), reason };
    match other.join("job", soon()) {
        Err(Error::Join(JoinError::Over(ending))) => assert_eq!(ending, closed),
        round => panic!("{round:?}"),
    }
    other.depart().unwrap();
    assert!(holder.see_off(Deadline::after(Duration::from_secs(20))).unwrap());
}

#[test]
fn a_store_that_is_silent_for_a_moment_is_borne_with_and_for_long_is_not() {
    let store = Arc::new(Moody::default());
    let dynamic: Arc<dyn Store> = store.clone();
    let options = RoundOptions { liveness: Duration::from_secs(2), ..options(1, 1, 0) };
    let mut node = seat(&dynamic, 0, options.clone());
    let round = join(&mut node).unwrap();
    store.sulk_until(Instant::now() + Duration::from_millis(500));
    while Instant::now() < *store.sulks.lock().unwrap() {
        let news = node.watch(&round, Deadline::after(Duration::from_millis(100))).unwrap();
        assert_eq!(news, News::Nothing);
    }
    store.sulk_until(Instant::now() + Duration::from_secs(3600));
    let error =
        until_some(|| node.watch(&round, Deadline::after(Duration::from_millis(100))).err());
    let Error::Timeout { waited, missing, .. } = error else { panic!("{error}") };
    assert!(waited >= options.liveness && missing.count == 0, "{waited:?} {missing}");
}

#[test]
fn many_nodes_meet_over_one_store() {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    let nodes: Vec<_> = (0..40).map(|id| seat(&store, id, options(40, 40, 0))).collect();
    let rounds = all(nodes, |mut node| join(&mut node).unwrap());
    assert!(rounds.iter().all(|round| round.nodes == rounds[0].nodes));
}

const LIVENESS: Duration = Duration::from_millis(500);

fn options(min: u32, max: u32, max_restarts: u32) -> RoundOptions {
    RoundOptions {
        min,
        max,
        max_restarts,
        last_call: Duration::from_millis(300),
        liveness: LIVENESS,
        version: "test".to_owned(),
    }
}

/// A server, and nodes with a connection of their own.
struct Place {
    secret: Secret,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let secret = Secret::generate().unwrap();
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
        Self { secret, server }
    }

    fn node(&self, id: u64, options: RoundOptions) -> Rendezvous {
        self.node_as(id, id as u32, options)
    }

    fn node_as(&self, id: u64, rank: u32, options: RoundOptions) -> Rendezvous {
        let until = Deadline::after(Duration::from_secs(20));
        let store = TcpStore::connect(self.server.address(), &self.secret, until).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        seat_as(&store, id, rank, options)
    }
}

/// A store that now and then does not answer.
#[derive(Debug)]
struct Moody {
    store: MemStore,
    sulks: Mutex<Instant>,
}

impl Default for Moody {
    fn default() -> Self {
        Self { store: MemStore::new(), sulks: Mutex::new(Instant::now()) }
    }
}

impl Moody {
    fn sulk_until(&self, moment: Instant) {
        *self.sulks.lock().unwrap() = moment;
    }
}

impl Store for Moody {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, Error> {
        if Instant::now() < *self.sulks.lock().unwrap() {
            let waited = Duration::from_millis(10);
            std::thread::sleep(waited);
            return Err(Error::Timeout { verb: "call", waited, missing: Missing::default() });
        }
        self.store.call(request, until)
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>, Error> {
        self.store.duplicate()
    }
}

fn seat(store: &Arc<dyn Store>, id: u64, options: RoundOptions) -> Rendezvous {
    seat_as(store, id, id as u32, options)
}

fn seat_as(store: &Arc<dyn Store>, id: u64, rank: u32, options: RoundOptions) -> Rendezvous {
    let me = Node {
        id: NodeId::new(id),
        host: format!("host{id}"),
        address: "127.0.0.1".to_owned(),
        slots: id as u32 + 1,
        port: 0,
        rank: Some(rank).filter(|rank| *rank < options.max),
    };
    Rendezvous::new(store, me, options).unwrap()
}

/// Joins, without waiting for the round to close.
fn step(node: &mut Rendezvous) {
    assert_eq!(node.join("job", Deadline::now()).unwrap(), None);
}

/// Calls `look` until it gives something.
fn until_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        if let Some(found) = look() {
            return found;
        }
    }
    panic!("looked for half a minute");
}

fn join(node: &mut Rendezvous) -> Result<Round, Error> {
    until_some(|| node.join("job", Deadline::after(Duration::from_millis(100))).transpose())
}

fn watch(node: &mut Rendezvous, round: &Round) -> News {
    until_some(|| match node.watch(round, Deadline::after(Duration::from_secs(1))).unwrap() {
        News::Nothing => None,
        news => Some(news),
    })
}

fn all<N: Send + 'static, T: Send + 'static>(
    nodes: Vec<N>,
    each: impl Fn(N) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = nodes
        .into_iter()
        .map(|node| {
            let each = each.clone();
            std::thread::spawn(move || each(node))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}
