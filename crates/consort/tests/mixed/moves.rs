//! The operations that move data as it is.

use std::time::Duration;

use consort::{Group, ReduceOp};

use super::meet::{bytes, let_in, meet, ranks};

fn every_move(group: &Group) {
    let (me, world) = (group.rank().index(), group.world());
    for (call, len) in [0, 1, 63, 1000, 5000, 70_001, 300_003].into_iter().enumerate() {
        let of = |rank: usize| bytes(rank, call, len);
        for root in 0..world {
            let mut buffer = if root == me { of(root) } else { vec![0; len] };
            group.broadcast(&mut buffer, root as u32).unwrap();
            assert_eq!(buffer, of(root), "broadcast of {len} from {root}");
        }
        let mut all = vec![0; len * world];
        group.all_gather(&of(me), &mut all).unwrap();
        let right: Vec<u8> = (0..world).flat_map(of).collect();
        assert!(all == right, "all_gather of {len}");

        let root = call % world;
        let mut gathered = vec![0; len * world];
        group.gather(&of(me), (root == me).then_some(&mut gathered[..]), root as u32).unwrap();
        assert!(root != me || gathered == right, "gather of {len}");
        let mut part = vec![0; len];
        group.scatter((root == me).then_some(&right[..]), &mut part, root as u32).unwrap();
        assert_eq!(part, of(me), "scatter of {len}");

        let to = |from: usize, to: usize| bytes(from * world + to, call, len);
        let inputs: Vec<u8> = (0..world).flat_map(|rank| to(me, rank)).collect();
        let mut outputs = vec![0; len * world];
        group.all_to_all(&inputs, &mut outputs).unwrap();
        let right: Vec<u8> = (0..world).flat_map(|rank| to(rank, me)).collect();
        assert!(outputs == right, "all_to_all of {len}");
    }
}

#[test]
fn data_gets_where_it_belongs() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| every_move(&meet(ctx)));
    let_in(&job);
    job.expect_all();
}

#[test]
fn data_gets_where_it_belongs_when_ranks_are_dealt_out() {
    let Some(ranks) = ranks(6, 2, true) else { return };
    let job = ranks.start(|ctx| every_move(&meet(ctx)));
    let_in(&job);
    job.expect_all();
}

#[test]
fn data_gets_where_it_belongs_between_three_hosts() {
    let Some(ranks) = ranks(6, 3, false) else { return };
    let job = ranks.start(|ctx| every_move(&meet(ctx)));
    let_in(&job);
    job.expect_all();
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let mark = |late: u32, rank: u32| ctx.dir().join(format!("came {late} {rank}"));
        for late in 0..4 {
            if ctx.rank() == late {
                std::thread::sleep(Duration::from_millis(100));
            }
            std::fs::write(mark(late, ctx.rank()), "").unwrap();
            group.barrier().unwrap();
            for rank in 0..4 {
                assert!(mark(late, rank).exists(), "without rank {rank}");
            }
        }
    });
    let_in(&job);
    job.expect_all();
}

#[test]
fn calls_go_on_in_the_background_and_in_groups_of_some() {
    let Some(ranks) = ranks(6, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        let me = group.rank().get();
        // Ranks 0, 1, 3 and 4: two on each host.
        let some = group.new_group(&[4, 0, 1, 3]).unwrap();
        let name = some.as_ref().map(|some| some.backend_name().unwrap());
        assert!(name.is_none_or(|name| name == "mixed"), "{name:?}");
        let mut works = Vec::new();
        for count in [1, 100, 30_000, 300_000] {
            works.push(group.all_reduce_async(vec![me as f32; count], ReduceOp::Sum).unwrap());
            if let Some(some) = &some {
                let work = some.all_reduce_async(vec![1.0_f32; count], ReduceOp::Sum).unwrap();
                let sum = work.wait().unwrap();
                assert_eq!(sum, vec![4.0; count]);
            }
        }
        for work in works {
            assert!(work.wait().unwrap().into_iter().all(|sum| sum == 15.0));
        }
        group.calls()
    });
    let_in(&job);
    assert_eq!(job.expect_all(), [5; 6]);
}
