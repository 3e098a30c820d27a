//! Rounds over real stores: nodes as threads, each with its own connection, in real time.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic and look at the clock"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::{
    Cause, Deadline, Ending, Error, JoinError, MemStore, News, Node, NodeId, Rendezvous, Round,
    RoundOptions, Secret, Server, Store, TcpStore,
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
    leaving.leave().unwrap();
    let left = Cause::Left { node: "host1 (127.0.0.1)".to_owned() };
    assert_eq!(watch(&mut staying, &round), News::Over(Ending::TooFew(left)));
}

#[test]
fn a_failure_calls_rounds_until_restarts_are_used_up() {
    let place = Place::new();
    let nodes: Vec<_> = (0..2).map(|id| place.node(id, options(2, 2, 1))).collect();
    let ends = all(nodes, |mut node| {
        let mut restarts = 0;
        loop {
            let round = join(&mut node).unwrap();
            assert_eq!(round.restarts, restarts);
            restarts += 1;
            if round.place == 0 {
                node.failed(&round, format!("failure {restarts}").as_bytes()).unwrap();
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
        let until = Deadline::after(Duration::from_secs(20));
        let store = TcpStore::connect(self.server.address(), &self.secret, until).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        seat(&store, id, options)
    }
}

fn seat(store: &Arc<dyn Store>, id: u64, options: RoundOptions) -> Rendezvous {
    let me = Node {
        id: NodeId::new(id),
        host: format!("host{id}"),
        address: "127.0.0.1".to_owned(),
        slots: id as u32 + 1,
        port: 0,
        rank: Some(id as u32).filter(|rank| *rank < options.max),
    };
    Rendezvous::new(store, me, options).unwrap()
}

fn join(node: &mut Rendezvous) -> Result<Round, Error> {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        if let Some(round) = node.join("job", Deadline::after(Duration::from_millis(100)))? {
            return Ok(round);
        }
    }
    panic!("no round closed: {:?}", node.state());
}

fn watch(node: &mut Rendezvous, round: &Round) -> News {
    let limit = Instant::now() + Duration::from_secs(30);
    while Instant::now() < limit {
        match node.watch(round, Deadline::after(Duration::from_secs(1))).unwrap() {
            News::Nothing => {}
            news => return news,
        }
    }
    panic!("no news: {:?}", node.state());
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
