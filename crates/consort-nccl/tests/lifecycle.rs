//! Communicators that come into being, are parted, made smaller and larger, and end.

mod support;

use std::ffi::c_int;
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use consort::trace;
use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::raw::{Grown, Handle, In, Out};
use consort_nccl::{Config, Status, UniqueId};
use consort_testkit::{Outcome, Ranks, ranks};

use support::*;

#[test]
fn whoever_has_the_id_may_have_made_it() {
    ranks(3, |ctx| {
        for maker in 0..3 {
            let id = share(ctx, maker, &format!("id-{maker}"));
            let mut comm = Handle::NULL;
            ok(ncclCommInitRank(out(&mut comm), 3, id, ctx.rank() as c_int));
            assert_eq!((rank_of(comm), world_of(comm)), (ctx.rank() as usize, 3));
            counts_all(comm);
            ok(ncclCommFinalize(comm));
            ok(ncclCommDestroy(comm));
        }
    });
}

#[test]
fn a_process_that_is_no_rank_may_make_the_id() {
    let mut job = Ranks::new(2).start(|ctx| {
        let id = await_id(&ctx.dir().join("id"));
        let mut comm = Handle::NULL;
        ok(ncclCommInitRank(out(&mut comm), 2, id, ctx.rank() as c_int));
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
    leave_id(&job.dir(), "id", &unique_id());
    assert!(job.wait().iter().all(|outcome| matches!(outcome, Outcome::Done(()))));
}

#[test]
fn several_ids_stand_for_one_communicator() {
    ranks(3, |ctx| {
        let ids = [share(ctx, 0, "one"), share(ctx, 1, "two")];
        let (mut comm, rank) = (Handle::NULL, ctx.rank() as c_int);
        ok(ncclCommInitRankScalable(out(&mut comm), 3, rank, 2, list(&ids), no_config()));
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn nobody_gets_in_with_another_secret() {
    let mut job = Ranks::new(2).env("CONSORT_TIMEOUT", "3s").start(|ctx| {
        let mut id = share(ctx, 0, "id");
        if ctx.rank() == 1 {
            id = with_another_secret(&id);
        }
        let mut comm = Handle::new(7);
        let status = ncclCommInitRank(out(&mut comm), 2, id, ctx.rank() as c_int);
        assert_eq!(comm, Handle::NULL);
        (status.0, last_error())
    });
    let outcomes = job.wait();
    let [Outcome::Done((waited, missing)), Outcome::Done((refused, secret))] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert_eq!(*waited, Status::TIMEOUT.0, "{missing}");
    assert!(missing.contains("missing rank 1"), "{missing}");
    assert_ne!(*refused, 0);
    assert!(secret.contains("secret"), "{secret}");
}

/// An id as sound as the given one, by which nobody gets in.
fn with_another_secret(id: &UniqueId) -> UniqueId {
    let mut bytes = id.internal.map(|byte| byte as u8);
    bytes[60] ^= 1;
    let hash = blake3::hash(&bytes[..84]);
    bytes[84..116].copy_from_slice(hash.as_bytes());
    UniqueId { internal: bytes.map(|byte| byte as _) }
}

#[test]
fn a_call_that_makes_no_communicator_leaves_null_in_its_place() {
    let (id, comm) = (unique_id(), all_here(1)[0]);
    let mut damaged = id;
    damaged.internal[60] ^= 1;
    let foreign = Handle::new(0xdead_0000);
    let cases: Vec<(Call<'_>, &str)> = vec![
        (Box::new(|to| ncclCommInitRank(to, 1, damaged, 0)), "has changed on the way"),
        (Box::new(|to| ncclCommInitRank(to, 0, id, 0)), "nranks is 0"),
        (Box::new(|to| ncclCommInitRank(to, 1, id, 1)), "rank is 1"),
        (Box::new(|to| ncclCommInitRankConfig(to, 1, id, 0, config(&mut wrong()))), "0 bytes"),
        (Box::new(|to| scalable(to, 0, list(&[id]), no_config())), "nId is 0"),
        (Box::new(|to| scalable(to, 2, list(&[id]), no_config())), "nId is 2"),
        (Box::new(|to| scalable(to, 1, nothing(), no_config())), "commIds is NULL"),
        (Box::new(|to| scalable(to, 1, list(&[id]), config(&mut wrong()))), "0 bytes"),
        (Box::new(|to| ncclCommSplit(foreign, 0, 0, to, no_config())), "comm is 0xdead0000"),
        (Box::new(|to| ncclCommSplit(comm, -2, 0, to, no_config())), "color is -2"),
        (Box::new(|to| shrink(foreign, to, 0)), "comm is 0xdead0000"),
        (Box::new(|to| shrink(comm, to, 2)), "shrinkFlags is 2"),
        (Box::new(|to| grow(Handle::NULL, nothing(), to)), "uniqueId is NULL"),
        (Box::new(|to| grow(Handle::NULL, list(&[damaged]), to)), "has changed on the way"),
        (Box::new(|to| grow(foreign, list(&[id]), to)), "comm is 0xdead0000"),
        (Box::new(|to| grow(comm, list(&[id]), to)), "rank is 0"),
    ];
    for (call, words) in cases {
        let mut places = [Handle::new(7); 2];
        fails(call(outs(&mut places)), Status::INVALID_ARGUMENT, words);
        assert_eq!(places, [Handle::NULL, Handle::new(7)], "{words}");
    }
    for (devices, status) in [([0, -1], Status::INVALID_ARGUMENT), ([3, 3], Status::INVALID_USAGE)]
    {
        let mut places = [Handle::new(7); 3];
        fails(ncclCommInitAll(outs(&mut places), 2, list(&devices)), status, "devlist");
        assert_eq!(places, [Handle::NULL, Handle::NULL, Handle::new(7)]);
    }
    ok(ncclCommDestroy(comm));
}

/// A call that is to put a communicator somewhere.
type Call<'a> = Box<dyn Fn(Out<Handle>) -> Status + 'a>;

fn scalable(to: Out<Handle>, count: c_int, ids: In<UniqueId>, config: Grown<Config>) -> Status {
    ncclCommInitRankScalable(to, 1, 0, count, ids, config)
}

fn shrink(comm: Handle, to: Out<Handle>, flags: c_int) -> Status {
    ncclCommShrink(comm, nothing(), 0, to, no_config(), flags)
}

fn grow(comm: Handle, id: In<UniqueId>, to: Out<Handle>) -> Status {
    ncclCommGrow(comm, 2, id, 0, to, no_config())
}

/// A configuration that says that it has no bytes.
fn wrong() -> Config {
    Config { size: 0, ..Config::INITIAL }
}

#[test]
fn all_ranks_of_a_process_leave_records_of_one_communicator() {
    let folder = tempfile::tempdir().unwrap();
    let job = Ranks::new(1).env("CONSORT_TRACE_DIR", folder.path());
    job.start(|_| {
        let folder = PathBuf::from(std::env::var_os("CONSORT_TRACE_DIR").unwrap());
        let _log = File::create(folder.join("rank-0.log")).unwrap();
        let recorded = |rank: u32| trace::read(&folder.join(format!("rank-{rank}"))).unwrap().job;
        let first = all_here(4);
        let job = recorded(0);
        let second = all_here(2);
        assert!((0..4).all(|rank| recorded(rank) == job), "the second one's are in memory");
        first.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
        second.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
        let third = all_here(2);
        assert!(recorded(0) != job && recorded(0) == recorded(1), "the first one has ended");
        third.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
    })
    .expect_all();
}

#[test]
fn what_does_not_block_is_in_progress_until_it_is_done() {
    ranks(2, |ctx| {
        let id = share(ctx, 0, "id");
        let mut asked = Config { blocking: 0, commName: c"mine".as_ptr(), ..Config::INITIAL };
        let mut comm = Handle::NULL;
        let rank = ctx.rank() as c_int;
        if ctx.rank() == 1 {
            thread::sleep(Duration::from_millis(200));
        }
        let status = ncclCommInitRankConfig(out(&mut comm), 2, id, rank, config(&mut asked));
        assert_eq!(status, Status::IN_PROGRESS);
        if ctx.rank() == 0 && condition(comm) == Status::IN_PROGRESS {
            let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
            fails(status, Status::INVALID_ARGUMENT, "\"mine\" is not ready");
        }
        assert_eq!(settled(comm), Status::SUCCESS);
        counts_all(comm);
        let mut part = Handle::NULL;
        assert_eq!(ncclCommSplit(comm, 1, 0, out(&mut part), no_config()), Status::IN_PROGRESS);
        assert_eq!(settled(part), Status::SUCCESS);
        counts_all(part);
        assert_eq!(ncclCommFinalize(comm), Status::IN_PROGRESS);
        assert_eq!(settled(comm), Status::SUCCESS);
        let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
        fails(status, Status::INVALID_USAGE, "was finalized");
        ok(ncclCommDestroy(part));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn parts_are_ordered_by_key_and_some_are_in_none() {
    ranks(4, |ctx| {
        let comm = meet(ctx);
        let me = ctx.rank() as c_int;
        let (mut part, colour) = (Handle::NULL, if me == 3 { -1 } else { me % 2 });
        ok(ncclCommSplit(comm, colour, -me, out(&mut part), no_config()));
        match me {
            3 => assert_eq!(part, Handle::NULL),
            1 => assert_eq!((rank_of(part), world_of(part)), (0, 1)),
            _ => assert_eq!((rank_of(part), world_of(part)), (1 - me as usize / 2, 2)),
        }
        if me != 3 {
            counts_all(part);
            ok(ncclCommDestroy(part));
        }
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn a_communicator_goes_on_beside_the_smaller_one() {
    ranks(4, |ctx| {
        let comm = meet(ctx);
        for turn in 0..2 {
            if ctx.rank() != 2 {
                let mut rest = Handle::NULL;
                ok(ncclCommShrink(comm, list(&[2]), 1, out(&mut rest), no_config(), 0));
                let expected = if ctx.rank() == 3 { 2 } else { ctx.rank() as usize };
                assert_eq!((rank_of(rest), world_of(rest)), (expected, 3), "{turn}");
                counts_all(rest);
                ok(ncclCommDestroy(rest));
            }
            counts_all(comm);
        }
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn smaller_ones_are_made_one_after_the_other() {
    ranks(4, |ctx| {
        let comm = meet(ctx);
        for without in [2, 2, 3, 1, 2] {
            if ctx.rank() as c_int == without {
                continue;
            }
            let mut rest = Handle::NULL;
            ok(ncclCommShrink(comm, list(&[without]), 1, out(&mut rest), no_config(), 0));
            counts_all(rest);
            ok(ncclCommDestroy(rest));
        }
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn those_who_are_left_go_on_after_a_rank_was_killed() {
    let mut job = Ranks::new(4).start(|ctx| {
        let comm = meet(ctx);
        counts_all(comm);
        if ctx.rank() == 2 {
            ctx.reach("ready");
            thread::sleep(Duration::from_secs(60));
        }
        let mut sums = [0.0_f32; 1000];
        let status = all_reduce(&[1.0; 1000], &mut sums, SUM, comm, NOW);
        fails(status, Status::REMOTE_ERROR, "rank 2 is gone");
        assert_eq!(condition(comm), Status::REMOTE_ERROR);
        assert!(last_error_of(comm).contains("rank 2 is gone: its process has ended"));
        let mut rest = Handle::NULL;
        let status = ncclCommShrink(comm, list(&[2]), 1, out(&mut rest), no_config(), 0);
        fails(status, Status::REMOTE_ERROR, "NCCL_SHRINK_ABORT");
        ok(ncclCommShrink(comm, list(&[2]), 1, out(&mut rest), no_config(), 1));
        assert_eq!(world_of(rest), 3);
        counts_all(rest);
        ok(ncclCommDestroy(comm));
        ok(ncclCommDestroy(rest));
    });
    job.await_point(2, "ready");
    job.kill(2);
    let outcomes = job.wait();
    assert_eq!(
        outcomes.iter().filter(|it| matches!(it, Outcome::Done(()))).count(),
        3,
        "{outcomes:?}"
    );
}

#[test]
fn those_who_are_left_go_on_after_the_one_that_made_the_id_was_killed() {
    let mut job = Ranks::new(4).start(|ctx| {
        let comm = meet(ctx);
        counts_all(comm);
        ctx.reach("ready");
        if ctx.rank() == 0 {
            thread::sleep(Duration::from_secs(60));
        }
        let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
        fails(status, Status::REMOTE_ERROR, "rank 0 is gone");
        assert!(last_error().ends_with("ncclCommShrink lets the others go on"), "{}", last_error());
        let mut rest = Handle::NULL;
        ok(ncclCommShrink(comm, list(&[0]), 1, out(&mut rest), no_config(), 1));
        assert_eq!((rank_of(rest), world_of(rest)), (ctx.rank() as usize - 1, 3));
        counts_all(rest);
        ok(ncclCommDestroy(comm));
        ok(ncclCommDestroy(rest));
    });
    (0..4).for_each(|rank| job.await_point(rank, "ready"));
    job.kill(0);
    let outcomes = job.wait();
    assert!(outcomes[1..].iter().all(|it| matches!(it, Outcome::Done(()))), "{outcomes:?}");
}

#[test]
fn an_abort_ends_what_another_thread_waits_in() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        if ctx.rank() == 1 {
            // Nobody makes the call that rank 0 waits in, and rank 0 gives up.
            while condition(comm) == Status::SUCCESS {
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(condition(comm), Status::REMOTE_ERROR);
            ok(ncclCommAbort(comm));
            return;
        }
        let stuck = thread::spawn(move || {
            let status = all_reduce(&[1.0_f64; 9], &mut [0.0; 9], SUM, comm, NOW);
            (status, last_error())
        });
        let queue = stream();
        thread::sleep(Duration::from_millis(50));
        let mut later = [0.0_f64; 9];
        ok(all_reduce(&[1.0_f64; 9], &mut later, SUM, comm, queue));
        ok(ncclCommAbort(comm));
        let (status, text) = stuck.join().unwrap();
        assert_eq!(status, Status::REMOTE_ERROR, "{text}");
        assert!(text.contains("ncclCommAbort"), "{text}");
        assert_ne!(consortStreamSynchronize(queue), Status::SUCCESS);
        ok(consortStreamDestroy(queue));
        fails(ncclCommAbort(comm), Status::INVALID_ARGUMENT, "destroyed before");
    });
}

#[test]
fn whoever_has_not_revoked_what_another_has_is_told_to() {
    ranks(2, |ctx| {
        let (comm, mut part) = (meet(ctx), Handle::NULL);
        if ctx.rank() == 1 {
            while condition(comm) == Status::SUCCESS {
                thread::sleep(Duration::from_millis(1));
            }
            let advice = "was revoked by another rank: call ncclCommRevoke on this one, too";
            let status = ncclCommSplit(comm, 0, 0, out(&mut part), no_config());
            fails(status, Status::REMOTE_ERROR, advice);
            let status = ncclCommShrink(comm, nothing(), 0, out(&mut part), no_config(), 0);
            fails(status, Status::REMOTE_ERROR, advice);
        }
        ok(ncclCommRevoke(comm, 0));
        ok(ncclCommSplit(comm, 0, 0, out(&mut part), no_config()));
        counts_all(part);
        [part, comm].into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
    });
}

#[test]
fn what_was_revoked_can_be_parted_and_made_smaller() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        counts_all(comm);
        fails(ncclCommRevoke(comm, 1), Status::INVALID_ARGUMENT, "revokeFlags is 1");
        ok(ncclCommRevoke(comm, 0));
        let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
        fails(status, Status::INVALID_USAGE, "was revoked");
        fails(ncclCommFinalize(comm), Status::INVALID_USAGE, "was revoked");
        let mut part = Handle::NULL;
        ok(ncclCommSplit(comm, 0, 0, out(&mut part), no_config()));
        counts_all(part);
        ok(ncclCommDestroy(part));
        if ctx.rank() != 0 {
            let mut rest = Handle::NULL;
            ok(ncclCommShrink(comm, list(&[0]), 1, out(&mut rest), no_config(), 0));
            counts_all(rest);
            ok(ncclCommDestroy(rest));
        }
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn a_communicator_takes_in_others() {
    ranks(4, |ctx| {
        let me = ctx.rank();
        let mut larger = Handle::NULL;
        if me >= 2 {
            let id = await_id(&ctx.dir().join("grown"));
            let (id, rank) = (list(std::slice::from_ref(&id)), me as c_int);
            ok(ncclCommGrow(Handle::NULL, 4, id, rank, out(&mut larger), no_config()));
        } else {
            let id = share(ctx, 0, "id");
            let mut comm = Handle::NULL;
            ok(ncclCommInitRank(out(&mut comm), 2, id, me as c_int));
            let mut more = UniqueId { internal: [0; 128] };
            if me == 1 {
                ok(ncclCommGetUniqueId(comm, out(&mut more)));
                leave_id(&ctx.dir(), "grown", &more);
            }
            let id = if me == 1 { list(std::slice::from_ref(&more)) } else { nothing() };
            ok(ncclCommGrow(comm, 4, id, -1, out(&mut larger), no_config()));
            counts_all(comm);
            ok(ncclCommDestroy(comm));
        }
        assert_eq!((rank_of(larger), world_of(larger)), (me as usize, 4));
        counts_all(larger);
        ok(ncclCommDestroy(larger));
    });
}

#[test]
fn different_calls_are_told_to_all_ranks() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let count = 3 + ctx.rank() as usize;
        let status = all_reduce(&vec![1.0_f32; count], &mut vec![0.0; count], SUM, comm, NOW);
        fails(status, Status::INVALID_USAGE, "all_reduce");
        assert_eq!(condition(comm), Status::INVALID_USAGE);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn ranks_that_do_not_come_in_time_are_named() {
    let jobs = Ranks::new(2).env("CONSORT_TIMEOUT", "1s");
    jobs.start(|ctx| {
        let comm = meet(ctx);
        counts_all(comm);
        if ctx.rank() == 0 {
            let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
            fails(status, Status::TIMEOUT, "[1]");
            let advice = "if they only need longer, CONSORT_TIMEOUT gives it to them";
            assert!(last_error().ends_with(advice), "{}", last_error());
            ctx.reach("late");
        } else {
            while condition(comm) == Status::SUCCESS {
                thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(condition(comm), Status::TIMEOUT);
        }
        ok(ncclCommDestroy(comm));
    })
    .expect_all();
}
