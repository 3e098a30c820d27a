//! Ranks that die in the middle of the meeting.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Builder, Deadline, ErrorKind, Secret, Store};
use consort_store::{Server, TcpStore};
use consort_testkit::{Case, Outcome, Ranks, conformance};

use crate::meet::{LONG, SOON, invited};

/// Rank 3 never comes, so the others wait for it, and one of those who wait is killed.
macro_rules! killed_while_all_wait {
    ($($kinds:tt $name:ident $victim:literal)*) => {$(
        conformance! { $kinds $name }

        fn $name(case: Case) {
            let mut job = case.of(4).start(|ctx| {
                if ctx.rank() == 3 {
                    let _: bool = ctx.told("never");
                }
                ctx.reach("begun");
                let error = invited(ctx).init().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
                ctx.reach("told");
                error.to_string()
            });
            (0..3).for_each(|rank| job.await_point(rank, "begun"));
            // Time enough to come, and to wait.
            thread::sleep(Duration::from_millis(1000));
            job.kill($victim);
            let killed = Instant::now();
            let others: Vec<u32> = (0..3).filter(|rank| *rank != $victim).collect();
            others.iter().for_each(|&rank| job.await_point(rank, "told"));
            assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
            job.kill(3);
            let (process, outcomes) = (job.pid($victim), job.wait());
            for rank in others {
                let outcome = &outcomes[rank as usize];
                let Outcome::Done(error) = outcome else { panic!("{outcome:?}") };
                let gone = format!("group world: rank {} is gone", $victim);
                assert!(error.starts_with(&gone), "{error}");
                assert!(error.contains(&format!("(process {process}): ended")), "{error}");
            }
        }
    )*};
}

killed_while_all_wait! {
    [shm tcp] who_was_to_judge_is_named_when_it_is_killed_while_others_have_not_come 0
    [shm tcp mixed] who_waits_for_others_that_have_not_come_is_named_when_it_is_killed 1
}

conformance! { [shm tcp mixed]
    who_is_killed_at_any_moment_of_the_meeting_is_named_by_all_soon
}

/// Nobody waits until the deadline for one who had come and is gone, whatever it was doing.
fn who_is_killed_at_any_moment_of_the_meeting_is_named_by_all_soon(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        ctx.reach("begun");
        let group = match invited(ctx).timeout(BRIEF).init() {
            Ok(group) => group,
            Err(error) => return (error.kind() == ErrorKind::Deadline, error.to_string()),
        };
        let group = group.within(LONG);
        let error = (0..).find_map(|_| group.barrier().err()).unwrap();
        (error.kind() == ErrorKind::Deadline, error.to_string())
    });
    (0..4).for_each(|rank| job.await_point(rank, "begun"));
    thread::sleep(Duration::from_millis(u64::from(std::process::id() % 150)));
    job.kill(1);
    let killed = Instant::now();
    for (rank, outcome) in job.wait().into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let Outcome::Done((late, error)) = outcome else { panic!("rank {rank}: {outcome:?}") };
        // Only of one that had not come yet nothing can be known.
        assert!(!late || error.contains("missing rank 1"), "rank {rank}: {error}");
        assert!(error.contains("rank 1"), "rank {rank}: {error}");
    }
    assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
}

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
        thread::sleep(Duration::from_millis(1));
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

/// Rank 1 stands still after it has shown its card, so that the others wait for what it tells those of its
/// host, when the process that holds the store does, too.
#[test]
fn whose_store_stands_still_in_the_middle_of_a_meeting_hears_so_when_the_time_is_up() {
    let mut job = Ranks::new(4).start(|ctx| {
        let secret: Secret = ctx.told::<String>("secret").parse().unwrap();
        if ctx.rank() == STORE {
            let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
            std::fs::write(ctx.dir().join("port"), server.address().port().to_string()).unwrap();
            ctx.reach("serves");
            return ctx.told("nothing");
        }
        let port: String = ctx.told("port");
        if ctx.rank() != 1 {
            let _: bool = ctx.told("rank 1 stands");
        }
        let address = format!("tcp://127.0.0.1:{port}?rank={}&world={STORE}", ctx.rank());
        let builder = Builder::new().address(&address).unwrap().timeout(SHORT).secret(secret);
        let started = Instant::now();
        (builder.init().unwrap_err().to_string(), started.elapsed())
    });
    let secret = Secret::generate().unwrap();
    job.tell("secret", &secret.to_hex());
    job.await_point(STORE, "serves");
    let port = std::fs::read_to_string(job.dir().join("port")).unwrap();
    job.tell("port", &port);
    let until = Deadline::after(LONG);
    let store = TcpStore::connect(format!("127.0.0.1:{port}"), &secret, until).unwrap();
    while store.queue_len("job/0/meeting/shown").unwrap() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    job.stop(1);
    job.tell("rank 1 stands", &true);
    store.wait(&["job/0/meeting/bell/0", "job/0/meeting/bell/2"], until).unwrap();
    job.stop(STORE);
    [0, 2].into_iter().for_each(|rank| job.await_end(rank));
    [1, STORE].into_iter().for_each(|rank| job.kill(rank));
    let outcomes = job.wait();
    for rank in [0, 2] {
        let Outcome::Done((error, took)) = &outcomes[rank] else { panic!("{:?}", outcomes[rank]) };
        let silent = format!("cannot reach the store at 127.0.0.1:{port} after ");
        assert!(error.starts_with(&silent), "{error}");
        assert!(error.ends_with("as when the process that holds it is stopped"), "{error}");
        // It has up to three seconds to answer what it is asked at the end.
        let most = SHORT + Duration::from_secs(3);
        assert!((SHORT..most + Duration::from_secs(2)).contains(took), "{error}: {took:?}");
    }
}

/// The rank whose process holds the store, and is none of the world.
const STORE: u32 = 3;
/// Time enough to come so far, and less than waiting for the store twice takes.
const SHORT: Duration = Duration::from_secs(5);
/// Somebody who has not come is waited for so long.
const BRIEF: Duration = Duration::from_secs(10);
