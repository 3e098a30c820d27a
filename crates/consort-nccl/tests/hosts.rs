//! Ranks that share no memory.

mod support;

use consort_nccl::api::communicators::*;
use consort_nccl::api::groups::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Status, UniqueId};
use consort_testkit::{Context, Outcome, Ranks, skip};

use support::*;

/// A bit of everything.
fn work_together(ctx: &Context) {
    let comm = meet(ctx);
    let (me, world) = (rank_of(comm), world_of(comm));
    let mine: Vec<f32> = (0..40_009).map(|at| (me * 100 + at % 9) as f32).collect();
    let mut sums = vec![0.0_f32; mine.len()];
    ok(all_reduce(&mine, &mut sums, SUM, comm, NOW));
    let ranks = 100 * world * (world - 1) / 2;
    assert!((0..sums.len()).all(|at| sums[at] == (ranks + world * (at % 9)) as f32));
    let mut theirs = vec![vec![0.0_f32; mine.len()]; world];
    ok(ncclGroupStart());
    for (peer, theirs) in theirs.iter_mut().enumerate() {
        ok(send(&mine, peer, comm, NOW));
        ok(recv(theirs, peer, comm, NOW));
    }
    ok(ncclGroupEnd());
    for (peer, theirs) in theirs.iter().enumerate() {
        assert!((0..mine.len()).all(|at| theirs[at] == (peer * 100 + at % 9) as f32));
    }
    let mut half = Handle::NULL;
    ok(ncclCommSplit(comm, (me % 2) as i32, 0, out(&mut half), no_config()));
    counts_all(half);
    ok(ncclCommDestroy(half));
    ok(ncclCommDestroy(comm));
}

#[test]
fn ranks_of_two_hosts_meet_where_the_interface_leads() {
    let ranks = match Ranks::new(4).on_hosts(2) {
        Ok(ranks) => ranks.env("NCCL_SOCKET_IFNAME", "eth"),
        Err(reason) => return skip(reason),
    };
    let found = ranks.start(|ctx| {
        work_together(ctx);
        ctx.rank()
    });
    assert_eq!(found.expect_all(), [0, 1, 2, 3]);
}

#[test]
fn ranks_go_on_over_tcp_after_one_was_killed() {
    let mut job = Ranks::new(3).env("CONSORT_TRANSPORT", "tcp").start(|ctx| {
        work_together(ctx);
        let id: UniqueId = share(ctx, 0, "second");
        let mut comm = Handle::NULL;
        ok(ncclCommInitRank(out(&mut comm), 3, id, ctx.rank() as i32));
        counts_all(comm);
        ctx.reach("ready");
        if ctx.rank() == 2 {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
        fails(status, Status::REMOTE_ERROR, "rank 2 is gone");
        let mut rest = Handle::NULL;
        ok(ncclCommShrink(comm, list(&[2]), 1, out(&mut rest), no_config(), 1));
        counts_all(rest);
        ok(ncclCommDestroy(comm));
        ok(ncclCommDestroy(rest));
    });
    (0..3).for_each(|rank| job.await_point(rank, "ready"));
    job.kill(2);
    let outcomes = job.wait();
    assert!(outcomes[..2].iter().all(|it| matches!(it, Outcome::Done(()))), "{outcomes:?}");
}
