//! Ranks as real processes that meet, or fail to.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod port;

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{fs, thread};

use consort::{Builder, Deadline, Error, Group, Secret, Store};
use consort_store::{Server, TcpStore};
use consort_testkit::{Context, Outcome, Ranks, ranks, skip};

use self::port::ReservedPort;

#[test]
fn ranks_meet_over_tcp_and_know_each_other() {
    let job = Ranks::new(4).start(|ctx| {
        let group = invited(ctx).timeout(Duration::from_secs(50)).init().unwrap();
        assert_eq!(group.store().patience(), Duration::from_secs(50));
        group.barrier().unwrap();
        seen_by(&group)
    });
    let _port = tell_where(&job);
    let pids: Vec<u32> = (0..4).map(|rank| job.pid(rank)).collect();
    for (rank, (own, world, local, processes)) in (0..).zip(job.expect_all()) {
        assert_eq!((own, world, local, processes), (rank, 4, (rank as usize, 4), pids.clone()));
    }
}

#[test]
fn ranks_meet_on_a_socket_that_listens_before_rank_0_comes() {
    let seen = ranks(3, |ctx| {
        let tell = |what: &str, word: &str| {
            let path = ctx.dir().join(what);
            fs::write(path.with_extension("new"), word).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        };
        let told = |what: &str| loop {
            match fs::read_to_string(ctx.dir().join(what)) {
                Ok(word) => break word,
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        };
        let with = |address: &str, secret: &str| {
            let builder = Builder::new().rank(ctx.rank()).world(3).timeout(Duration::from_secs(50));
            let builder = builder.address(&format!("tcp://{address}")).unwrap();
            builder.secret(secret.parse().unwrap())
        };
        let builder = if ctx.rank() == 0 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let secret = Secret::generate().unwrap().to_hex();
            tell("where", &format!("{address} {secret}"));
            // Nobody can take the port, and somebody is at the door.
            assert!(TcpListener::bind(address).is_err());
            told("knocked");
            with(&address.to_string(), &secret).listener(listener)
        } else {
            let place = told("where");
            let (address, secret) = place.split_once(' ').unwrap();
            if ctx.rank() == 1 {
                drop(TcpStream::connect(address).unwrap());
                tell("knocked", "");
            }
            // It is rank 0 who holds the store.
            with(address, secret).listener(TcpListener::bind("127.0.0.1:0").unwrap())
        };
        let group = builder.init().unwrap();
        group.store().add("came", 1).unwrap();
        group.barrier().unwrap();
        (group.rank().get(), group.store().add("came", 0).unwrap())
    });
    assert_eq!(seen, [(0, 3), (1, 3), (2, 3)]);
}

#[test]
fn a_socket_that_the_address_does_not_lead_to_is_refused_at_once() {
    let refused = |place: fn(u16) -> String| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let place = place(here.port());
        let builder = Builder::new().rank(0).world(2).address(&format!("tcp://{place}")).unwrap();
        let builder = builder.secret(Secret::generate().unwrap()).listener(listener);
        let error = builder.init().unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error}");
        let said = format!("listens at {here}, but the ranks are to meet at {place}");
        assert!(error.to_string().contains(&said), "{error}");
    };
    refused(|port| format!("127.0.0.1:{}", if port == 1 { 2 } else { port - 1 }));
    refused(|port| format!("127.0.0.2:{port}"));
}

#[test]
fn the_first_of_a_builders_clones_takes_its_socket_and_the_others_find_the_store_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let builder = Builder::new().rank(0).world(1).address(&format!("tcp://{address}")).unwrap();
    let builder = builder.secret(Secret::generate().unwrap()).listener(listener);
    let first = builder.clone().init().unwrap();
    let second = builder.epoch(1).init().unwrap();
    for group in [&first, &second] {
        group.store().set("here", b"").unwrap();
        group.barrier().unwrap();
    }
}

#[test]
fn ranks_meet_over_a_file_without_a_secret() {
    let seen = ranks(3, |ctx| {
        let path = ctx.dir().join("meeting");
        let address = format!("file://{}?rank={}&world=3", path.display(), ctx.rank());
        let builder = Builder::new().address(&address).unwrap();
        let group = builder.timeout(Duration::from_secs(50)).init().unwrap();
        assert_eq!(group.store().patience(), Duration::from_secs(50));
        group.store().push("order", &ctx.rank().to_le_bytes()).unwrap();
        group.barrier().unwrap();
        let count = group.store().queue_len("order").unwrap();
        group.barrier().unwrap();
        (group.rank().get(), count)
    });
    assert_eq!(seen, [(0, 3), (1, 3), (2, 3)]);
}

#[test]
fn ranks_set_up_differently_all_see_the_difference() {
    let job = Ranks::new(3).start(|ctx| {
        let timeout = if ctx.rank() == 1 { 20 } else { 30 };
        let error = invited(ctx).timeout(Duration::from_secs(timeout)).init().unwrap_err();
        assert!(matches!(error, Error::Differs { .. }), "{error}");
        error.to_string()
    });
    let _port = tell_where(&job);
    for (rank, error) in (0..).zip(job.expect_all()) {
        assert!(error.starts_with(&format!("rank {rank}: ")), "{error}");
        assert!(error.ends_with("\n  timeout: 20s on rank 1, 30s on ranks 0, 2"), "{error}");
    }
}

#[test]
fn ranks_that_differ_in_options_all_see_who_has_what() {
    let job = Ranks::new(3).start(|ctx| {
        let port = 20_000 + ctx.rank() as u16;
        let builder = invited(ctx).encrypt(ctx.rank() == 1).data_port(port);
        let builder = if ctx.rank() == 2 { builder.algorithm("ring") } else { builder };
        builder.init().unwrap_err().to_string()
    });
    let _port = tell_where(&job);
    let expected = "\n  algorithm: auto on ranks 0-1, ring on rank 2\
                    \n  encrypt: off on ranks 0, 2, on on rank 1";
    for error in job.expect_all() {
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn ranks_that_disagree_about_the_world_do_not_wait_for_ghosts() {
    let job = Ranks::new(2).start(|ctx| {
        let world = if ctx.rank() == 1 { 5 } else { 2 };
        invited(ctx).world(world).init().unwrap_err().to_string()
    });
    let _port = tell_where(&job);
    for error in job.expect_all() {
        assert!(error.contains("world: "), "{error}");
    }
}

#[test]
fn a_rank_beyond_the_world_of_those_who_agreed_has_no_place_among_them() {
    let mut job = Ranks::new(4).start(|ctx| {
        let world = if ctx.rank() < 2 { 2 } else { 4 };
        if world == 4 {
            let _: String = ctx.told("two have met");
        }
        let path = ctx.dir().join("meeting");
        let address = format!("file://{}?rank={}&world={world}", path.display(), ctx.rank());
        let met = Builder::new().address(&address).unwrap().init();
        ctx.reach("judged");
        let _: String = ctx.told("all are done");
        met.map(|group| group.local_rank()).map_err(|error| error.to_string())
    });
    for rank in 0..4 {
        job.await_point(rank, "judged");
        if rank == 1 {
            job.tell("two have met", &"yes");
        }
    }
    job.tell("all are done", &"yes");
    let seen = job.expect_all();
    assert_eq!(seen[..2], [Ok(0), Ok(1)]);
    for rank in [2, 3] {
        let error = seen[rank].as_ref().unwrap_err();
        assert!(error.ends_with(&format!("\n  world: 2 on rank 0, 4 on rank {rank}")), "{error}");
    }
}

#[test]
fn a_rank_0_that_dies_before_its_verdict_is_named() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let mut job = Ranks::new(3).start(|ctx| {
        if ctx.rank() == 2 {
            let _: String = ctx.told("rank 0 is dead");
        }
        invited(ctx).timeout(Duration::from_secs(3)).init().unwrap_err().to_string()
    });
    job.tell("where", &(server.address().port(), secret.to_hex()));
    let until = Deadline::after(Duration::from_secs(60));
    let store = TcpStore::connect(server.address(), &secret, until).unwrap();
    store.wait(&["job/0/meeting/card/0", "job/0/meeting/card/1"], until).unwrap();
    job.kill(0);
    job.tell("rank 0 is dead", &"yes");
    let outcomes = job.wait();
    for rank in [1, 2] {
        let Outcome::Done(error) = &outcomes[rank] else { panic!("{:?}", outcomes[rank]) };
        assert!(error.starts_with("group world: rank 0 is gone"), "{error}");
    }
}

#[test]
fn a_group_is_left_soon_though_the_process_with_the_store_is_stopped() {
    let mut job = Ranks::new(2).start(|ctx| {
        let group = invited(ctx).init().unwrap();
        ctx.reach("met");
        let _: String = ctx.told(if ctx.rank() == 0 { "rank 1 has left" } else { "rank 0 stands" });
        let started = Instant::now();
        drop(group);
        ctx.reach("left");
        started.elapsed()
    });
    let _port = tell_where(&job);
    for rank in [0, 1] {
        job.await_point(rank, "met");
    }
    job.stop(0);
    job.tell("rank 0 stands", &"yes");
    job.await_point(1, "left");
    job.cont(0);
    job.tell("rank 1 has left", &"yes");
    let took = job.expect_all();
    assert!(took[1] < Duration::from_secs(20), "{took:?}");
}

#[test]
fn who_does_not_come_is_named_by_all_who_do() {
    let job = Ranks::new(4).start(|ctx| {
        if ctx.rank() == 2 {
            return String::new();
        }
        invited(ctx).timeout(Duration::from_millis(1500)).init().unwrap_err().to_string()
    });
    let _port = tell_where(&job);
    let errors = job.expect_all();
    for rank in [0, 1, 3] {
        let error = &errors[rank];
        assert!(error.contains(&format!("rank {rank} of 4 waited")), "{error}");
        assert!(error.contains("missing rank 2;"), "{error}");
    }
}

#[test]
fn a_rank_killed_before_it_comes_is_named() {
    let mut job = Ranks::new(3).start(|ctx| {
        ctx.reach("born");
        if ctx.rank() == 1 {
            let _: String = ctx.told("never");
        }
        invited(ctx).timeout(Duration::from_secs(2)).init().unwrap_err().to_string()
    });
    job.await_point(1, "born");
    job.kill(1);
    let _port = tell_where(&job);
    let outcomes = job.wait();
    assert_eq!(outcomes[1], Outcome::Signalled(9));
    for rank in [0, 2] {
        let Outcome::Done(error) = &outcomes[rank] else { panic!("{:?}", outcomes[rank]) };
        assert!(error.contains("missing rank 1;"), "{error}");
    }
}

#[test]
fn two_processes_of_one_rank_are_found_out() {
    let mut job = Ranks::new(3).start(|ctx| {
        let twin = if ctx.rank() == 2 { 1 } else { ctx.rank() };
        let group = invited(ctx).rank(twin).world(2).init();
        ctx.reach("judged");
        // The store goes with rank 0, and the twin may be late.
        let _: String = ctx.told("all are judged");
        match group {
            Ok(group) => {
                group.barrier().unwrap();
                String::new()
            }
            Err(error) => error.to_string(),
        }
    });
    let _port = tell_where(&job);
    for rank in 0..3 {
        job.await_point(rank, "judged");
    }
    job.tell("all are judged", &"yes");
    let pids = [0, 1, 2].map(|rank| job.pid(rank));
    let errors = job.expect_all();
    let told: Vec<&String> = errors.iter().filter(|error| !error.is_empty()).collect();
    assert_eq!(told.len(), 1, "{errors:?}");
    let first = if errors[1].is_empty() { pids[1] } else { pids[2] };
    let who = format!("process {first} on ");
    assert!(told[0].starts_with(&who), "{}", told[0]);
    assert!(told[0].contains("as rank 1: two processes were started with the same rank"));
}

/// As under a launcher, which holds the store.
#[test]
fn a_process_that_calls_init_twice_in_a_round_is_told_so() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let job = Ranks::new(2).start(|ctx| {
        let group = invited(ctx).init().unwrap();
        let again = invited(ctx).init().unwrap_err();
        group.barrier().unwrap();
        drop(group);
        let after = invited(ctx).init().unwrap_err();
        for error in [again, after] {
            assert!(matches!(&error, Error::Twice { rank, .. } if *rank == ctx.rank()), "{error}");
            let said =
                "init was called twice in this process: it has come to round 0 of job \"job\"";
            assert!(error.to_string().starts_with(said), "{error}");
        }
        for epoch in 1..4 {
            invited(ctx).epoch(epoch).init().unwrap().barrier().unwrap();
        }
    });
    job.tell("where", &(server.address().port(), secret.to_hex()));
    job.expect_all();
}

#[test]
fn a_rank_with_another_secret_is_kept_out_and_missed() {
    let job = Ranks::new(3).start(|ctx| {
        let mut builder = invited(ctx).timeout(Duration::from_secs(2));
        if ctx.rank() == 1 {
            builder = builder.secret(Secret::generate().unwrap());
        }
        builder.init().unwrap_err().to_string()
    });
    let _port = tell_where(&job);
    let errors = job.expect_all();
    assert!(errors[1].contains("the secrets differ"), "{}", errors[1]);
    for rank in [0, 2] {
        assert!(errors[rank].contains("missing rank 1;"), "{}", errors[rank]);
    }
}

#[test]
fn ranks_of_two_hosts_know_who_shares_a_host_and_how_to_reach_the_other() {
    let ranks = match Ranks::new(4).on_hosts(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| {
        let place = ctx.address_of(0).unwrap().at(29400);
        let secret: String = ctx.told("secret");
        let group = Builder::new()
            .address(&format!("tcp://{place}?rank={}&world=4", ctx.rank()))
            .unwrap()
            .secret(secret.parse().unwrap())
            .init()
            .unwrap();
        group.barrier().unwrap();
        let own = ctx.address_of(ctx.rank()).unwrap().ip();
        assert_eq!(group.members()[group.rank().index()].address, own);
        let addresses: Vec<_> = group.members().iter().map(|member| member.address).collect();
        (group.local_rank(), group.local_world(), addresses)
    });
    job.tell("secret", &Secret::generate().unwrap().to_hex());
    let seen = job.expect_all();
    for (rank, (local_rank, local_world, addresses)) in seen.iter().enumerate() {
        assert_eq!((*local_rank, *local_world), (rank / 2, 2));
        assert_eq!(addresses, &seen[0].2);
        assert_ne!(addresses[0], addresses[1]);
    }
}

/// What a rank sees: its rank, the world, its place on its host, everyone's process.
fn seen_by(group: &Group) -> (u32, usize, (usize, usize), Vec<u32>) {
    let local = (group.local_rank(), group.local_world());
    let processes = group.members().iter().map(|member| member.process).collect();
    (group.rank().get(), group.world(), local, processes)
}

/// A builder for this rank, with the place and secret that the first process chose.
fn invited(ctx: &Context) -> Builder {
    let (port, secret): (u16, String) = ctx.told("where");
    ctx.reach("asked");
    Builder::new()
        .rank(ctx.rank())
        .world(ctx.world())
        .address(&format!("tcp://127.0.0.1:{port}"))
        .unwrap()
        .secret(secret.parse().unwrap())
}

/// Tells the ranks a port that stays theirs, and a secret.
fn tell_where<T: serde::Serialize + serde::de::DeserializeOwned>(
    job: &consort_testkit::Job<T>,
) -> ReservedPort {
    let reserved = ReservedPort::within(0..=0);
    job.tell("where", &(reserved.number, Secret::generate().unwrap().to_hex()));
    reserved
}
