//! A bit that turns over between two hosts.

use std::thread;
use std::time::Duration;

use consort::{Builder, Error, Group, ReduceOp, Result};
use consort_testkit::{Context, Ranks, skip};

use crate::meddler::{Meddling, PATTERN, PORT, meddle, two_ranks};
use crate::meet::{LIMIT, invited};

#[test]
fn with_checksums_a_changed_bit_is_an_error_that_names_the_rank_and_the_call_on_every_rank() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| hear(ctx, |builder| builder.integrity(true)));
    let (found, _) = meddle(job, Meddling::Pattern);
    for (changed, error) in found {
        assert_eq!(changed, 0);
        assert!(error.contains("rank 0 ") && error.contains("of call 2 "), "{error}");
        assert!(error.contains("checksum differs"), "{error}");
    }
}

#[test]
fn without_checksums_a_changed_bit_goes_unnoticed() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let (found, _) = meddle(ranks.start(|ctx| hear(ctx, |builder| builder)), Meddling::Pattern);
    assert_eq!(found, [(0, String::new()), (1, String::new())]);
}

#[test]
fn a_bit_that_was_changed_on_the_way_is_found_when_results_are_compared() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| hear(ctx, |builder| builder.verify_results(3)));
    let (found, _) = meddle(job, Meddling::Pattern);
    for (_, error) in found {
        assert!(error.contains("the results of calls 2 to 3 are not the same"), "{error}");
        assert!(error.contains("ranks [0, 1] differ"), "{error}");
    }
}

#[test]
fn what_is_sealed_cannot_be_changed_without_notice() {
    let ranks = match two_ranks() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let job = ranks.start(|ctx| hear(ctx, |builder| builder.encrypt(true)));
    let (found, _) = meddle(job, Meddling::At(50_000));
    for (changed, error) in found {
        assert_eq!(changed, 0);
        assert!(error.contains("rank 0 "), "{error}");
    }
}

#[test]
fn a_call_that_is_given_up_half_sent_is_no_damage_and_other_groups_go_on() {
    let mut job = Ranks::new(2).limit(LIMIT).start(|ctx| {
        let group = invited(ctx).interface("lo").integrity(true).init().unwrap();
        let other = group.new_group(&[0, 1]).unwrap().unwrap();
        group.barrier().unwrap();
        if group.rank() == 0 {
            thread::scope(|scope| {
                let giving_up = scope.spawn(|| {
                    // Until there is no more room on the way.
                    thread::sleep(Duration::from_millis(500));
                    other.abort("enough");
                });
                other.broadcast(&mut vec![7_u8; 64 << 20], 0).unwrap_err();
                giving_up.join().unwrap();
            });
            ctx.reach("given up");
        }
        let _: bool = ctx.told("go");
        let mut sum = vec![1.5; 100_000];
        group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert!(sum == vec![3.0; 100_000]);
        let error = other.barrier().unwrap_err();
        assert!(matches!(error, Error::Aborted { by: 0, .. }), "{error}");
    });
    job.await_point(0, "given up");
    job.tell("go", &true);
    job.expect_all();
}

/// Makes a few calls, one of which has the pattern. Says how many bits came changed, and the error if
/// there was one.
fn hear(ctx: &Context, options: impl FnOnce(Builder) -> Builder) -> (u32, String) {
    let group = options(invited(ctx).data_port(PORT)).init().unwrap();
    ctx.reach("listening");
    let _: bool = ctx.told("go");
    let mut changed = 0;
    let error = call(&group, &mut changed).err();
    (changed, error.map(|error| error.to_string()).unwrap_or_default())
}

fn call(group: &Group, changed: &mut u32) -> Result<()> {
    group.barrier()?;
    let sent = PATTERN.repeat(6000);
    let mut data = if group.rank() == 0 { sent.clone() } else { vec![0; sent.len()] };
    group.broadcast(&mut data, 0)?;
    *changed = sent.iter().zip(&data).map(|(one, other)| (one ^ other).count_ones()).sum();
    group.barrier()?;
    group.barrier()
}
