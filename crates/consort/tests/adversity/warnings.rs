//! Ranks that are alive and do not come are told of long before anybody gives up.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Group, ReduceOp};
use consort_testkit::{Case, Context, Job, conformance};

use crate::meet::{SOON, invited, works};

conformance! { [shm tcp mixed]
    a_rank_that_stands_still_is_named_in_a_warning_by_all_who_wait_in_a_call
    a_rank_that_stands_still_is_named_in_a_warning_by_all_who_wait_for_its_messages
}
conformance! { [shm]
    who_wants_no_warnings_gets_none
}

fn a_rank_that_stands_still_is_named_in_a_warning_by_all_who_wait_in_a_call(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = impatient(ctx);
        works(&group);
        ctx.reach("here");
        let _: bool = ctx.told("it stands");
        let mut sum = vec![1_u32; 10];
        if ctx.rank() == 1 {
            sum = group.all_reduce_async(sum, ReduceOp::Sum).unwrap().wait().unwrap();
        } else {
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        }
        assert_eq!(sum, [4; 10]);
        works(&group);
    });
    stand_still(&mut job, "call 2, all_reduce(sum) of 10 u32, for ranks [2]");
    job.expect_all();
}

fn a_rank_that_stands_still_is_named_in_a_warning_by_all_who_wait_for_its_messages(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = impatient(ctx);
        works(&group);
        ctx.reach("here");
        let _: bool = ctx.told("it stands");
        let mut message = vec![0_u8];
        match ctx.rank() {
            2 => [0, 1, 3].into_iter().for_each(|to| group.send(&[7_u8], to, 0).unwrap()),
            1 => message = group.recv_async(message, 2, 0).unwrap().wait().unwrap(),
            _ => group.recv(&mut message, 2, 0).map(drop).unwrap(),
        }
        assert!(ctx.rank() == 2 || message == [7]);
        works(&group);
    });
    stand_still(&mut job, "for ranks [2]");
    job.expect_all();
}

fn who_wants_no_warnings_gets_none(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = invited(ctx).warn_after(None).init().unwrap();
        if ctx.rank() == 1 {
            thread::sleep(Duration::from_millis(400));
        }
        works(&group);
    });
    job.wait();
    assert!(!job.output(0).contains("waited"), "{}", job.output(0));
}

/// A group whose ranks warn early.
fn impatient(ctx: &Context) -> Group {
    invited(ctx).warn_after(Duration::from_millis(300)).trace_dir(ctx.dir()).init().unwrap()
}

/// Stops rank 2 when all are ready, until the others have warned of it twice, in these words.
fn stand_still(job: &mut Job<()>, words: &str) {
    (0..4).for_each(|rank| job.await_point(rank, "here"));
    job.stop(2);
    job.tell("it stands", &true);
    let process = format!("(process {}): alive", job.pid(2));
    for rank in [0, 1, 3] {
        let begun = Instant::now();
        loop {
            let output = job.output(rank);
            let warnings: Vec<&str> = output.split("consort: group world: rank ").skip(1).collect();
            for warning in &warnings {
                assert!(warning.starts_with(&format!("{rank} has waited ")), "{output}");
            }
            if warnings.len() >= 2 && warnings.last().is_some_and(|it| it.contains(words)) {
                assert!(output.contains(&process), "{output}");
                break;
            }
            assert!(begun.elapsed() < SOON, "rank {rank} has said: {output}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    job.cont(2);
}
