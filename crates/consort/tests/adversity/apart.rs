//! Ranks of one machine that may not share memory.

use std::net::TcpListener;

use consort::{Builder, Error, Group, Transport};
use consort_testkit::{Context, Job, Ranks};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::meet::{LONG, works};

#[test]
fn a_rank_of_another_user_counts_as_on_another_host_and_is_reached_over_tcp() {
    let job = Ranks::new(4).start(|ctx| {
        let group = as_another_user_if(ctx.rank() == 2, || invited(ctx).init().unwrap());
        works(&group);
        let host = |rank: usize| &group.members()[rank].host;
        let same: Vec<bool> = (0..4).map(|rank| host(rank) == host(0)).collect();
        let half = group.split(Some(u32::from(ctx.rank() == 2)), 0).unwrap().unwrap();
        works(&half);
        (same, group.local_world(), backends(&group, &half))
    });
    tell_where(&job);
    let can_be_another = geteuid().is_root();
    let seen = job.expect_all();
    for (rank, (same, local_world, backends)) in seen.iter().enumerate() {
        if can_be_another {
            assert_eq!(same, &[true, true, false, true], "rank {rank}");
            assert_eq!(*local_world, if rank == 2 { 1 } else { 3 });
            assert_eq!(backends, &["tcp", "shm"]);
        } else {
            assert_eq!(same, &[true; 4], "nobody can be another user here");
        }
    }
}

#[test]
fn a_rank_of_another_user_is_refused_where_memory_has_to_be_shared() {
    let job = Ranks::new(2).start(|ctx| {
        let builder = invited(ctx).transport(Transport::Shm);
        if !geteuid().is_root() {
            return;
        }
        let error = as_another_user_if(ctx.rank() == 1, || builder.init().unwrap_err());
        assert!(matches!(&error, Error::Argument(what) if what.contains("shm")), "{error}");
    });
    tell_where(&job);
    job.expect_all();
}

fn backends(group: &Group, half: &Group) -> [String; 2] {
    [group, half].map(|group| group.backend_name().unwrap().to_owned())
}

/// In this thread, and those it starts, until it is done.
fn as_another_user_if<T>(is_other: bool, act: impl FnOnce() -> T) -> T {
    let become_user = |user| set_thread_res_uid(Uid::ROOT, user, Uid::ROOT).unwrap();
    let is_other = is_other && geteuid().is_root();
    if is_other {
        become_user(Uid::from_raw(NOBODY));
    }
    let done = act();
    if is_other {
        become_user(Uid::ROOT);
    }
    done
}

fn invited(ctx: &Context) -> Builder {
    let port: u16 = ctx.told("port");
    let address = format!("tcp://127.0.0.1:{port}?rank={}&world={}", ctx.rank(), ctx.world());
    let secret = "5a".repeat(32).parse().unwrap();
    Builder::new().address(&address).unwrap().secret(secret).timeout(LONG)
}

/// A port that was free a moment ago.
fn tell_where<T>(job: &Job<T>) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    job.tell("port", &port);
}

/// The user that owns nothing.
const NOBODY: u32 = 65534;
