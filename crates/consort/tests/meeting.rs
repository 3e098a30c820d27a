//! Ranks as real processes that meet, or fail to.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::net::TcpListener;
use std::time::Duration;

use consort::{Builder, Error, Group, Secret};
use consort_testkit::{Context, Outcome, Ranks, ranks, skip};

#[test]
fn ranks_meet_over_tcp_and_know_each_other() {
    let mut job = Ranks::new(4).start(|ctx| {
        let group = invited(ctx).init().unwrap();
        group.barrier("all are here").unwrap();
        seen_by(&group)
    });
    tell_where(&mut job);
    let pids: Vec<u32> = (0..4).map(|rank| job.pid(rank)).collect();
    for (rank, (own, world, local, processes)) in (0..).zip(job.expect_all()) {
        assert_eq!((own, world, local, processes), (rank, 4, (rank as usize, 4), pids.clone()));
    }
}

#[test]
fn ranks_meet_over_a_file_without_a_secret() {
    let seen = ranks(3, |ctx| {
        let path = ctx.dir().join("meeting");
        let address = format!("file://{}?rank={}&world=3", path.display(), ctx.rank());
        let group = Builder::new().address(&address).unwrap().init().unwrap();
        group.store().push("order", &ctx.rank().to_le_bytes()).unwrap();
        group.barrier("pushed").unwrap();
        let count = group.store().queue_len("order").unwrap();
        group.barrier("counted").unwrap();
        (group.rank().get(), count)
    });
    assert_eq!(seen, [(0, 3), (1, 3), (2, 3)]);
}

#[test]
fn ranks_set_up_differently_all_see_the_difference() {
    let mut job = Ranks::new(3).start(|ctx| {
        let timeout = if ctx.rank() == 1 { 20 } else { 30 };
        let error = invited(ctx).timeout(Duration::from_secs(timeout)).init().unwrap_err();
        assert!(matches!(error, Error::Differs { .. }), "{error}");
        error.to_string()
    });
    tell_where(&mut job);
    for (rank, error) in (0..).zip(job.expect_all()) {
        assert!(error.starts_with(&format!("rank {rank}: ")), "{error}");
        assert!(error.ends_with("\n  timeout: 20s on rank 1, 30s on ranks 0, 2"), "{error}");
    }
}

#[test]
fn ranks_that_disagree_about_the_world_do_not_wait_for_ghosts() {
    let mut job = Ranks::new(2).start(|ctx| {
        let world = if ctx.rank() == 1 { 5 } else { 2 };
        invited(ctx).world(world).init().unwrap_err().to_string()
    });
    tell_where(&mut job);
    for error in job.expect_all() {
        assert!(error.contains("world: "), "{error}");
    }
}

#[test]
fn who_does_not_come_is_named_by_all_who_do() {
    let mut job = Ranks::new(4).start(|ctx| {
        if ctx.rank() == 2 {
            let _: String = ctx.told("the others are done");
            return String::new();
        }
        invited(ctx).timeout(Duration::from_millis(1500)).init().unwrap_err().to_string()
    });
    tell_where(&mut job);
    for rank in [0, 1, 3] {
        job.await_point(rank, "asked");
    }
    std::thread::sleep(Duration::from_secs(4));
    job.tell("the others are done", &"yes");
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
    tell_where(&mut job);
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
        match group {
            Ok(group) => {
                group.barrier("both").unwrap();
                String::new()
            }
            Err(error) => error.to_string(),
        }
    });
    tell_where(&mut job);
    let errors = job.expect_all();
    let told: Vec<&String> = errors.iter().filter(|error| !error.is_empty()).collect();
    assert_eq!(told.len(), 1, "{errors:?}");
    assert!(told[0].contains("as rank 1: two processes were started with the same rank"));
}

#[test]
fn a_rank_with_another_secret_is_kept_out_and_missed() {
    let mut job = Ranks::new(3).start(|ctx| {
        let mut builder = invited(ctx).timeout(Duration::from_secs(2));
        if ctx.rank() == 1 {
            builder = builder.secret(Secret::generate().unwrap());
        }
        builder.init().unwrap_err().to_string()
    });
    tell_where(&mut job);
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
        let place = ctx.address_of(0).unwrap().v4;
        let secret: String = ctx.told("secret");
        let group = Builder::new()
            .address(&format!("tcp://{place}:29400?rank={}&world=4", ctx.rank()))
            .unwrap()
            .secret(secret.parse().unwrap())
            .init()
            .unwrap();
        group.barrier("all are here").unwrap();
        let own = ctx.address_of(ctx.rank()).unwrap().v4;
        assert_eq!(group.members()[group.rank().index()].address, std::net::IpAddr::V4(own));
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

fn tell_where<T: serde::Serialize + serde::de::DeserializeOwned>(
    job: &mut consort_testkit::Job<T>,
) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    job.tell("where", &(port, Secret::generate().unwrap().to_hex()));
}
