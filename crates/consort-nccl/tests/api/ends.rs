//! How communicators end, and what becomes of calls that wait.

use std::thread;
use std::time::{Duration, Instant};

use consort::nccl::{Bootstrap, Code, Comm, Config, Error, Stream};
use consort::{Deadline, Dtype, ReduceOp, Target};
use consort_testkit::{Outcome, Ranks, ranks};

use crate::meet::{comm, comm_with, library};

#[test]
fn one_that_is_finalized_ends_when_it_is_dropped() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        assert_eq!(comm.async_error().unwrap(), Code::SUCCESS);
        comm.wait(Deadline::after(Duration::from_secs(5))).unwrap();
        comm.finalize().unwrap();
        let error = sum(&comm).unwrap_err();
        assert!(error.to_string().contains("was finalized"), "{error}");
    });
}

#[test]
fn what_has_been_aborted_says_so() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        comm.abort().unwrap();
        comm.abort().unwrap();
        for error in [sum(&comm).unwrap_err(), comm.async_error().unwrap_err()] {
            assert!(error.to_string().contains("communicator of rank 0 was aborted"), "{error}");
        }
        assert!(matches!(comm.destroy(), Err(Error::Ended { .. })));
    });
}

#[test]
fn ranks_that_do_not_come_are_not_waited_for_for_ever() {
    ranks(1, |_| {
        let bootstrap = Bootstrap::new(library()).unwrap();
        let config = Config::new().timeout(Duration::from_millis(300));
        let error = Comm::init_rank_with(library(), 2, bootstrap.id(), 0, &config).unwrap_err();
        assert!(matches!(error, Error::Deadline { rank: 0, world: 2, .. }), "{error}");
        bootstrap.release();
    });
}

#[test]
fn another_thread_can_abort_a_call_that_waits() {
    let done = ranks(2, |ctx| {
        let comm = comm(ctx);
        if ctx.rank() == 1 {
            // It never makes the call that the other waits in.
            while !ctx.dir().join("aborted").exists() {
                thread::sleep(Duration::from_millis(5));
            }
            drop(comm);
            return true;
        }
        let began = Instant::now();
        let result = thread::scope(|scope| {
            let waiting = scope.spawn(|| sum(&comm));
            thread::sleep(Duration::from_millis(200));
            comm.abort().unwrap();
            waiting.join().unwrap()
        });
        std::fs::write(ctx.dir().join("aborted"), "").unwrap();
        result.is_err() && began.elapsed() < Duration::from_secs(20)
    });
    assert_eq!(done, [true, true]);
}

#[test]
fn a_rank_that_dies_is_an_error_for_those_that_wait() {
    let mut job = Ranks::new(3).start(|ctx| {
        let comm = comm(ctx);
        sum(&comm).unwrap();
        ctx.reach("summed");
        if ctx.rank() == 1 {
            loop {
                thread::park();
            }
        }
        let error = sum(&comm).unwrap_err();
        comm.abort().unwrap();
        (error.code().map(|code| code.0), error.to_string())
    });
    (0..3).for_each(|rank| job.await_point(rank, "summed"));
    job.kill(1);
    for (rank, outcome) in job.wait().into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let Outcome::Done((code, text)) = outcome else { panic!("rank {rank}: {outcome:?}") };
        assert_eq!(code, Some(Code::REMOTE_ERROR.0), "{text}");
        assert!(text.contains(&format!("rank {rank} of 3")), "{text}");
        assert!(text.contains("shrink it"), "{text}");
    }
}

#[test]
fn several_ids_make_one_communicator() {
    ranks(3, |ctx| {
        let library = library();
        let mut made = None;
        if ctx.rank() == 0 {
            let two = [Bootstrap::new(library).unwrap(), Bootstrap::new(library).unwrap()];
            crate::meet::publish(&ctx.dir().join("a"), two[0].id());
            crate::meet::publish(&ctx.dir().join("b"), two[1].id());
            made = Some(two);
        }
        let ids = ["a", "b"].map(|name| crate::meet::await_id(&ctx.dir().join(name)));
        let config = Config::new().timeout(Duration::from_secs(30));
        let comm = Comm::init_scalable(library, 3, &ids, ctx.rank(), &config).unwrap();
        assert_eq!(sum(&comm).unwrap(), 3);
        assert!(Comm::init_scalable(library, 3, &[], ctx.rank(), &config).is_err());
        comm.destroy().unwrap();
        drop(made);
    });
}

#[test]
fn a_configuration_reaches_the_communicator() {
    ranks(2, |ctx| {
        let config = Config::new().comm_name("named").max_ctas(4).split_share(true).blocking(true);
        let comm = comm_with(ctx, "configured", &config);
        assert_eq!(sum(&comm).unwrap(), 2);
        let error = comm.signal(1 - comm.rank(), 0, 0, Stream::DEFAULT).unwrap_err();
        assert!(error.to_string().contains("\"named\""), "{error}");
        comm.destroy().unwrap();
    });
}

/// How many ranks there are, by counting them.
pub(crate) fn sum(comm: &Comm) -> consort::nccl::Result<u32> {
    let mut bytes = 1_u32.to_ne_bytes();
    add(comm, Target::from(&mut bytes[..]))?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Adds up a number of each rank, where it is. In a group it has to stay there until that has ended.
pub(crate) fn add(comm: &Comm, number: Target<'_>) -> consort::nccl::Result<()> {
    // SAFETY: the default stream is done when the call returns, or the group has ended, and no test looks or lets go
    // earlier; all ranks make the same call.
    unsafe { comm.all_reduce(number.into(), number, Dtype::U32, ReduceOp::Sum, Stream::DEFAULT) }
}
