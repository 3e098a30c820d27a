//! Who has the buffers when.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use consort::{Buffer, Error, Input, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, LONG, alone, late, meet, mine};

conformance! { [shm tcp mixed in_process]
    a_dropped_work_goes_on_and_its_buffer_lives_until_it_is_done
    a_work_that_is_not_done_in_time_can_be_waited_for_again
    one_input_can_be_read_by_several_calls_at_once
    a_buffer_that_panics_ends_its_group_and_nothing_else
}

/// A buffer that can be seen to be dropped.
struct Seen {
    numbers: Vec<f32>,
    _alive: Arc<()>,
}

impl Input for Seen {
    type Element = f32;

    fn elements(&self) -> &[f32] {
        &self.numbers
    }
}

impl Buffer for Seen {
    fn elements_mut(&mut self) -> &mut [f32] {
        &mut self.numbers
    }
}

fn a_dropped_work_goes_on_and_its_buffer_lives_until_it_is_done(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 0 {
            let alive = Arc::new(());
            let buffer = Seen { numbers: mine(&group, LARGE), _alive: alive.clone() };
            drop(group.all_reduce_async(buffer, ReduceOp::Sum).unwrap());
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(Arc::strong_count(&alive), 2, "the other rank has not called yet");
            ctx.reach("dropped");
            group.barrier().unwrap();
            // Whoever carried out the call lets go of the buffer a moment after it is done.
            let until = Instant::now() + LONG;
            while Arc::strong_count(&alive) > 1 {
                assert!(Instant::now() < until, "the buffer is kept");
                std::thread::yield_now();
            }
        } else {
            let _: bool = ctx.told("call");
            let mut buffer = mine(&group, LARGE);
            group.all_reduce(&mut buffer, ReduceOp::Sum).unwrap();
            assert_eq!(buffer, vec![3.0; LARGE]);
            group.barrier().unwrap();
        }
    });
    job.await_point(0, "dropped");
    job.tell("call", &true);
    job.expect_all();
}

fn a_work_that_is_not_done_in_time_can_be_waited_for_again(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            let _: bool = ctx.told("call");
        }
        let work = group.all_reduce_async(mine(&group, 10), ReduceOp::Sum).unwrap();
        let work = match ctx.rank() {
            0 => {
                let soon = consort::Deadline::after(Duration::from_millis(20));
                let work = work.wait_until(soon).unwrap_err();
                assert!(!work.is_done());
                assert_eq!(format!("{work:?}"), "call 1, all_reduce, on its way");
                ctx.reach("waited");
                work
            }
            _ => work,
        };
        assert_eq!(work.wait_until(late()).expect("there is time").unwrap(), vec![3.0; 10]);
    });
    job.await_point(0, "waited");
    job.tell("call", &true);
    job.expect_all();
}

fn one_input_can_be_read_by_several_calls_at_once(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let input = Arc::new(mine(&group, 1000));
        let begin = |_| group.all_gather_async(input.clone(), vec![0.0; 2000]).unwrap();
        let works: Vec<_> = (0..10).map(begin).collect();
        for work in works {
            let (_, output) = work.wait().unwrap();
            assert_eq!((output[0], output[1999]), (1.0, 2.0));
        }
        assert_eq!(Arc::strong_count(&input), 1);
    });
}

/// A buffer that fails when the call is carried out, not yet when it is made.
struct Unreliable(Mutex<u32>);

impl Input for Unreliable {
    type Element = u8;

    fn elements(&self) -> &[u8] {
        &[]
    }
}

impl Buffer for Unreliable {
    fn elements_mut(&mut self) -> &mut [u8] {
        let asked = self.0.get_mut().unwrap();
        *asked += 1;
        assert!(*asked < 2, "on purpose");
        &mut []
    }
}

fn a_buffer_that_panics_ends_its_group_and_nothing_else(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let other = group.split(Some(0), 0).unwrap().unwrap();
        if ctx.rank() == 0 {
            let work = group.all_reduce_async(Unreliable(Mutex::new(0)), ReduceOp::Sum).unwrap();
            let failed = work.wait_until(late()).expect("there is time").map(drop).unwrap_err();
            assert!(matches!(failed.error, Error::Abandoned { operation: "all_reduce" }));
        } else {
            let failed = group.all_reduce_async(vec![0_u8; 0], ReduceOp::Sum).unwrap().wait();
            let error = failed.unwrap_err().error;
            assert!(matches!(error, Error::Aborted { by: 0, .. }), "{error}");
        }
        assert!(group.barrier().is_err());
        let work = other.all_reduce_async(mine(&other, 10), ReduceOp::Sum).unwrap();
        assert_eq!(work.wait_until(late()).expect("there is time").unwrap(), vec![3.0; 10]);
    });
}

#[test]
fn what_was_carried_out_is_there_even_if_nobody_waits() {
    let group = alone();
    let work = group.all_reduce_async(vec![2.0_f32; 8], ReduceOp::Sum).unwrap();
    group.barrier().unwrap();
    assert!(work.is_done());
    assert_eq!(work.wait().unwrap(), [2.0; 8]);
}
