//! Ranks that die in the middle of the meeting.

use std::time::{Duration, Instant};

use consort::{Builder, Deadline, Secret, Store};
use consort_store::{Server, TcpStore};
use consort_testkit::{Outcome, Ranks};

use crate::meet::{LONG, SOON};

/// Rank 1 stands still after it has shown its card, and is killed when the others wait for what it
/// tells those of its host first.
#[test]
fn a_rank_killed_between_its_card_and_its_door_is_named_by_all_soon() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let mut job = Ranks::new(3).start(|ctx| {
        let (port, secret): (u16, String) = ctx.told("where");
        if ctx.rank() != 1 {
            let _: bool = ctx.told("rank 1 stands");
        }
        let address = format!("tcp://127.0.0.1:{port}?rank={}&world={}", ctx.rank(), ctx.world());
        let builder = Builder::new().address(&address).unwrap().timeout(LONG);
        let error = builder.secret(secret.parse().unwrap()).init().unwrap_err();
        ctx.reach("told");
        error.to_string()
    });
    job.tell("where", &(server.address().port(), secret.to_hex()));
    let until = Deadline::after(LONG);
    let store = TcpStore::connect(server.address(), &secret, until).unwrap();
    while store.queue_len("job/0/meeting/shown").unwrap() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    job.stop(1);
    job.tell("rank 1 stands", &true);
    store.wait(&["job/0/meeting/bell/0", "job/0/meeting/bell/2"], until).unwrap();
    assert!(!store.check(&["job/0/meeting/bell/1"]).unwrap());
    job.kill(1);
    let killed = Instant::now();
    for rank in [0, 2] {
        job.await_point(rank, "told");
    }
    assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
    let outcomes = job.wait();
    assert_eq!(outcomes[1], Outcome::Signalled(9));
    for rank in [0, 2] {
        let Outcome::Done(error) = &outcomes[rank] else { panic!("{:?}", outcomes[rank]) };
        let process = job.pid(1);
        let ended = format!("rank 1 (process {process}) has ended before it met the others");
        assert!(error.contains(&ended), "{error}");
    }
}
