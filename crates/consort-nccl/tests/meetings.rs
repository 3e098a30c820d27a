//! Meetings that fail.

mod support;

use std::ffi::c_int;
use std::path::Path;
use std::thread;
use std::time::Duration;

use consort_nccl::api::communicators::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Status, UniqueId};
use consort_testkit::{Ranks, await_threads, limit, ranks, used_addresses};
use rustix::process::Resource;

use support::*;

/// Has a rank come to the meeting of an id, which nothing comes of.
#[track_caller]
fn fail_to_meet(world: c_int, id: UniqueId, rank: u32, status: Status, words: &str) {
    let mut comm = Handle::new(7);
    fails(ncclCommInitRank(out(&mut comm), world, id, rank as c_int), status, words);
    assert_eq!(comm, Handle::NULL);
}

#[test]
fn a_process_gives_up_the_stores_of_meetings_that_have_failed() {
    let jobs = Ranks::new(1).env("CONSORT_TIMEOUT", "300ms");
    jobs.start(|_| {
        let unused = unique_id();
        let ids = [(); 3].map(|()| unique_id());
        for id in ids {
            fail_to_meet(2, id, 0, Status::TIMEOUT, "missing rank 1");
        }
        await_threads(STORE, 1);
        let gone = "the process that made the id has ended or stands still, has given its meeting up, or cannot be \
                    reached from here: an id is good for one meeting";
        fail_to_meet(2, ids[0], 1, Status::REMOTE_ERROR, gone);
        fail_to_meet(2, unused, 0, Status::TIMEOUT, "missing rank 1");
    })
    .expect_all();
}

#[test]
fn whoever_comes_as_a_rank_that_is_taken_spoils_the_meeting_for_nobody() {
    ranks(2, |ctx| {
        let (id, taken) = (share(ctx, 0, "id"), ctx.dir().join("taken"));
        let come = move |rank, comm: &mut Handle| ncclCommInitRank(out(comm), 2, id, rank);
        let mut comm = Handle::NULL;
        if ctx.rank() == 0 {
            while !taken.exists() {
                thread::sleep(Duration::from_millis(2));
            }
            let same = "two processes were started with the same rank";
            fail_to_meet(2, id, 1, Status::INVALID_USAGE, same);
            ok(come(0, &mut comm));
        } else {
            // One of both has the rank.
            let other = thread::spawn({
                let taken = taken.clone();
                move || come_or_tell(come, &taken)
            });
            let mine = come_or_tell(come, &taken);
            comm = mine.or(other.join().unwrap()).expect("one of both has come");
        }
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
}

/// Comes as rank 1, or leaves a mark that it was taken.
fn come_or_tell(come: impl Fn(c_int, &mut Handle) -> Status, taken: &Path) -> Option<Handle> {
    let mut comm = Handle::NULL;
    let status = come(1, &mut comm);
    if status == Status::SUCCESS {
        return Some(comm);
    }
    let again = "come to the meeting of this id as rank 1 before: an id is good for one meeting";
    fails(status, Status::INVALID_USAGE, again);
    std::fs::write(taken, "").expect("there is room");
    None
}

#[test]
fn who_has_come_later_than_the_one_that_made_the_id_hears_who_is_missing() {
    let jobs = Ranks::new(2).env("CONSORT_TIMEOUT", "2s");
    jobs.start(|ctx| {
        let id = share(ctx, 0, "id");
        if ctx.rank() == 1 {
            thread::sleep(Duration::from_secs(1));
        }
        fail_to_meet(3, id, ctx.rank(), Status::TIMEOUT, "missing rank 2");
        if ctx.rank() == 0 {
            // Its process goes on for as long as its store does.
            await_threads(STORE, 0);
        }
    })
    .expect_all();
}

/// Each of two ranks of a process maps the memory of both.
#[test]
fn where_addresses_are_scarce_ranks_of_one_process_meet_and_meet_again() {
    ranks(1, |_| {
        limit(Resource::As, Some(used_addresses() + (16 << 30)));
        let comms = [2, 3, 2].map(all_here);
        assert_eq!(comms.iter().map(Vec::len).sum::<usize>(), 7);
        comms.into_iter().flatten().for_each(|comm| ok(ncclCommDestroy(comm)));
    });
}

#[test]
fn where_addresses_are_scarce_a_process_is_in_several_meetings_with_others() {
    ranks(2, |ctx| {
        limit(Resource::As, Some(used_addresses() + (16 << 30)));
        let comms = ["first", "second", "third"].map(|name| {
            let (id, mut comm) = (share(ctx, 0, name), Handle::NULL);
            ok(ncclCommInitRank(out(&mut comm), 2, id, ctx.rank() as c_int));
            comm
        });
        comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
    });
}

/// The thread of a store.
const STORE: &str = "consort-store";
