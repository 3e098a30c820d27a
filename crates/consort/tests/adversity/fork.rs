//! Children that are forked from a rank.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use consort::symm::{Kept, Raw, Symmetric, Window};
use consort::{Builder, Deadline, Error, Group, ReduceOp, Secret, Work};
use consort_store::Server;
use consort_testkit::{Context, Ranks, ranks};

use crate::child::in_a_child;
use crate::meet::{LONG, invited, meet, works};

#[test]
fn whatever_a_child_asks_of_its_parents_group_is_an_error_and_the_group_goes_on() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        works(&group);
        let memory = group.symmetric::<u32>(8).unwrap();
        memory.local().unwrap().fill(7);
        memory.barrier(0).unwrap();
        let pool = group.pool(1 << 16).unwrap();
        if ctx.rank() == 1 {
            let found = in_a_child(|| {
                let one = [1_u8];
                let mut errors = vec![
                    group.barrier().unwrap_err(),
                    group.all_reduce(&mut [1.0_f32; 8], ReduceOp::Sum).unwrap_err(),
                    group.barrier_async().unwrap_err(),
                    group.all_reduce_async(vec![1_u32], ReduceOp::Sum).unwrap_err().error,
                    group.scope(|scope| scope.barrier()).unwrap_err(),
                    group.send(&one, 0, 0).unwrap_err(),
                    group.send(&one, 1, 0).unwrap_err(),
                    group.recv(&mut [0_u8], 0, 0).unwrap_err(),
                    group.recv_any(&mut [0_u8], 0).unwrap_err(),
                    group.send_async(vec![1_u8], 0, 0).unwrap_err().error,
                    group.recv_any_async(vec![0_u8], 0).unwrap_err().error,
                    group.split(Some(0), 0).unwrap_err(),
                    group.new_group(&[0, 1]).unwrap_err(),
                    group.among("of a child", &[0, 1]).unwrap_err(),
                    group.symmetric::<f32>(8).unwrap_err(),
                    group.workspace::<f32>(8).unwrap_err(),
                    pool.symmetric::<f32>(8).unwrap_err(),
                ];
                group.abort("a child has had enough");
                errors.push(group.error().unwrap());
                errors.extend(of_memory(&memory));
                assert!(!group.shares_memory());
                errors.push(Error::from(group.store().set("said by", b"a child").unwrap_err()));
                errors.push(Error::from(group.store().duplicate().unwrap_err()));
                errors.iter().map(|error| format!("{:?} {error}", error.kind())).collect()
            });
            assert_eq!(found.len(), 29);
            let from = format!("Mistake this process was forked from rank 1 (process {})", me());
            assert!(found.iter().all(|error| error.starts_with(&from)), "{found:#?}");
            let advice = "only the process that called init may use its group; start ranks with \
                          `consort run`, or call init after the fork";
            assert!(found[0].ends_with(advice), "{}", found[0]);
        }
        assert!(group.error().is_none() && memory.signals(1, 0).unwrap() == 0);
        memory.barrier(0).unwrap();
        assert_eq!(memory.peer(1).unwrap()[..], [7; 8]);
        assert!(!group.store().check(&["said by"]).unwrap());
        works(&group);
    });
}

#[test]
fn what_a_child_drops_nobody_misses() {
    let secret = Secret::generate().unwrap();
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap();
    let job = Ranks::new(2).start(|ctx| {
        drop_in_a_child(&meet_over_tcp(ctx), ctx.rank());
    });
    job.tell("where", &(server.address().port(), secret.to_hex()));
    job.expect_all();
}

#[test]
fn the_store_that_rank_0_holds_stays_when_a_child_drops_its_group() {
    let job = Ranks::new(2).start(|ctx| {
        drop_in_a_child(&meet_over_tcp(ctx), ctx.rank());
    });
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    job.tell("where", &(free, Secret::generate().unwrap().to_hex()));
    job.expect_all();
}

/// The group of all ranks, which are told where the store is.
fn meet_over_tcp(ctx: &Context) -> Group {
    let (port, secret): (u16, String) = ctx.told("where");
    let address = format!("tcp://127.0.0.1:{port}?rank={}&world={}", ctx.rank(), ctx.world());
    let builder = Builder::new().address(&address).unwrap().timeout(LONG);
    builder.secret(secret.parse().unwrap()).init().unwrap()
}

/// Every rank has a child that drops all that there is to be dropped.
fn drop_in_a_child(world: &Group, me: u32) {
    let store = world.store().clone();
    works(world);
    let group = world.split(Some(0), 0).unwrap().unwrap();
    works(&group);
    let memory = group.symmetric::<u32>(8).unwrap();
    let part = group.pool(1 << 16).unwrap().symmetric::<u8>(8).unwrap();
    let mut kept = group.symmetric::<u32>(8).unwrap().keep().unwrap();
    kept[0] = me;
    group.send(&[me], 1 - me, 3).unwrap();
    let work = group.recv_async(vec![0_u32], 1 - me, 4).unwrap();
    world.barrier_async().unwrap().wait().unwrap();

    let mut all = Some((work, memory, part, kept, group, world.clone()));
    let found = in_a_child(|| {
        let (work, memory, part, kept, group, world) = all.take().unwrap();
        drop((work, memory, part, kept, group));
        drop(world);
        vec!["alive".to_owned()]
    });
    assert_eq!(found, ["alive"]);

    let (work, memory, part, kept, group, _) = all.take().unwrap();
    world.barrier().unwrap();
    store.set(&format!("here/{me}"), b"yes").unwrap();
    store.wait(&["here/0", "here/1"], Deadline::after(LONG)).unwrap();
    group.send(&[me + 10], 1 - me, 4).unwrap();
    assert_eq!(work.wait().unwrap(), [11 - me]);
    let mut early = [0];
    group.recv(&mut early, 1 - me, 3).unwrap();
    assert_eq!(early, [1 - me]);
    assert_eq!(memory.local().unwrap()[..], [0; 8]);
    part.put(1 - me, 0, &[5]).unwrap();
    part.barrier(0).unwrap();
    assert_eq!(part.local().unwrap()[0], 5);
    let sums = group.all_reduce_async(kept, ReduceOp::Sum).unwrap().wait().unwrap();
    assert_eq!(sums[..2], [1, 0]);
    works(&group);
    works(world);
}

#[test]
fn a_window_that_a_child_lets_go_of_stays_its_parents() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(8).unwrap();
        let held: Option<Window<'_, u32>> = (ctx.rank() == 0).then(|| memory.local().unwrap());
        stays_its_parents(&group, &memory, held);
    });
}

#[test]
fn a_kept_window_that_a_child_drops_or_gives_to_a_call_stays_its_parents() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(8).unwrap();
        let kept: Option<Kept<u32>> = (ctx.rank() == 0).then(|| memory.keep().unwrap());
        stays_its_parents(&group, &memory, kept);
        group.barrier().unwrap();

        let mut kept = Some(memory.keep().unwrap());
        group.barrier().unwrap();
        let found = in_a_child(|| {
            let failed = group.all_reduce_async(kept.take().unwrap(), ReduceOp::Sum).unwrap_err();
            drop(failed.buffer);
            vec![failed.error.to_string()]
        });
        assert!(found[0].starts_with("this process was forked from rank"), "{found:?}");
        let sums = group.all_reduce_async(kept.unwrap(), ReduceOp::Sum).unwrap().wait().unwrap();
        assert_eq!(sums[0], 1);
    });
}

/// Rank 0 holds its window, and has a child that drops it; rank 1 does not get in before rank 0 itself
/// has.
fn stays_its_parents<G>(group: &Group, memory: &Symmetric<u32>, held: Option<G>) {
    group.barrier().unwrap();
    if held.is_some() {
        let mut held = held;
        in_a_child(|| {
            drop(held.take());
            vec![]
        });
        group.barrier().unwrap();
        group.barrier().unwrap();
        drop(held);
    } else {
        group.barrier().unwrap();
        let error = memory.within(Duration::from_millis(100)).put(0, 0, &[1]).unwrap_err();
        assert!(matches!(error, Error::Held { .. }), "{error}");
        group.barrier().unwrap();
        memory.put(0, 0, &[1]).unwrap();
    }
    memory.barrier(0).unwrap();
    assert_eq!(memory.peer(0).unwrap()[0], 1);
}

#[test]
fn a_child_cannot_copy_through_what_its_parent_had_opened() {
    ranks(1, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(8).unwrap();
        let raw: Raw<'_, u32> = memory.raw(0).unwrap();
        let found = in_a_child(|| {
            let errors = [raw.write(0, &[9]), raw.read(0, &mut [0])].map(Result::unwrap_err);
            errors.iter().map(Error::to_string).collect()
        });
        assert!(found.iter().all(|error| error.contains("was forked from rank 0")), "{found:?}");
        drop(raw);
        assert_eq!(memory.local().unwrap()[0], 0);
    });
}

#[test]
fn a_child_does_not_wait_for_a_call_that_its_parent_has_begun() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let mut work: Option<Work<()>> = Some(group.barrier_async().unwrap());
            let found = in_a_child(|| {
                let work = work.take().unwrap();
                let work = work.wait_until(Deadline::never()).unwrap_err();
                let panic = catch_unwind(AssertUnwindSafe(|| work.wait())).unwrap_err();
                vec![panic.downcast_ref::<String>().unwrap().clone()]
            });
            let never = "this barrier is never done: this process was forked from rank 0";
            assert!(found[0].starts_with(never), "{found:?}");
            group.send(&[1_u8], 1, 0).unwrap();
            work.take().unwrap().wait().unwrap();
        } else {
            group.recv(&mut [0_u8], 0, 0).unwrap();
            group.barrier().unwrap();
        }
        works(&group);
    });
}

#[test]
fn a_child_can_have_a_group_of_its_own() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let found = in_a_child(|| {
            let own = invited(ctx).epoch(1).init().unwrap();
            works(&own);
            let process = own.members()[own.rank().index()].process;
            let asynchronous = own.all_reduce_async(vec![1_u32], ReduceOp::Sum).unwrap().wait();
            vec![process.to_string(), asynchronous.unwrap()[0].to_string()]
        });
        assert!(found[0] != me().to_string() && found[1] == "2", "{found:?}");
        works(&group);
    });
}

/// What is to be had of memory without a call.
fn of_memory(memory: &Symmetric<u32>) -> Vec<Error> {
    vec![
        memory.local().unwrap_err(),
        memory.keep().unwrap_err(),
        memory.peer(0).unwrap_err(),
        memory.raw(0).unwrap_err(),
        memory.put(0, 0, &[1]).unwrap_err(),
        memory.get(0, 0, &mut [0]).unwrap_err(),
        memory.put_signal(0, 0).unwrap_err(),
        memory.wait_signal(0, 0).unwrap_err(),
        memory.barrier(0).unwrap_err(),
    ]
}

fn me() -> u32 {
    std::process::id()
}
