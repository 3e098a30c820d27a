//! Programs that begin MPI themselves, and end it.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use consort::Transport;
use consort_sys::dl::Library;
use consort_testkit::skip;

use super::{invited, ranks, works};

#[test]
fn a_program_that_begins_mpi_itself_has_groups_until_it_ends_it() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|ctx| {
        let library = library();
        begin(&library);
        let group = invited(ctx, Transport::Auto).init().unwrap();
        assert_eq!(group.backend_name().unwrap(), "mpi");
        works(&group);
        drop(group);
        end(&library);
        invited(ctx, Transport::Auto).epoch(1).init().unwrap_err().to_string()
    });
    for told in told.expect_all() {
        assert!(told.contains("the program has ended MPI"), "{told}");
    }
}

#[test]
fn a_program_that_has_ended_mpi_before_is_told_so() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks.env("CONSORT_BACKEND", "mpi"),
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|_| {
        let library = library();
        begin(&library);
        end(&library);
        consort::init().unwrap_err().to_string()
    });
    for told in told.expect_all() {
        assert!(told.contains("the program has ended MPI"), "{told}");
    }
}

#[test]
fn a_group_that_is_used_or_dropped_after_the_program_has_ended_mpi_ends_nobody() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|ctx| {
        let library = library();
        begin(&library);
        let world = invited(ctx, Transport::Auto).init().unwrap();
        let part = world.among("part", &[0, 1]).unwrap();
        let other = 1 - ctx.rank();
        for group in [&world, &part] {
            // It has come when the others have, and still has to be taken back.
            group.send(&[7_u8], other, 4).unwrap();
            group.recv(&mut [0_u8], other, 4).unwrap();
            group.barrier().unwrap();
        }
        end(&library);
        drop(part);
        let errors =
            [world.send(&[8_u8], other, 4), world.barrier()].map(|it| it.unwrap_err().to_string());
        drop(world);
        errors
    });
    for error in told.expect_all().into_iter().flatten() {
        assert!(error.contains("the program has ended MPI"), "{error}");
    }
}

#[test]
fn whoever_leaves_a_group_waits_for_none_that_others_keep() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let waited = ranks.start(|ctx| {
        let library = library();
        begin(&library);
        let world = invited(ctx, Transport::Auto).init().unwrap();
        let mut kept = Some(world.among("kept", &[0, 1]).unwrap());
        if ctx.rank() == 0 {
            kept = None;
        }
        let mut waited = Duration::ZERO;
        for at in 0..GROUPS {
            let group = world.among(&at.to_string(), &[0, 1]).unwrap();
            group.barrier().unwrap();
            let began = Instant::now();
            drop(group);
            waited += began.elapsed();
        }
        drop((kept, world));
        end(&library);
        waited
    });
    for waited in waited.expect_all() {
        assert!(waited < GROUPS * A_GROUPS_WAIT / 2, "{waited:?}");
    }
}

/// MPI's library, as a program of MPI has it.
fn library() -> Library {
    Library::open([std::env::var_os("CONSORT_MPI_LIBRARY").unwrap().into()]).unwrap()
}

/// Begins MPI, for several threads.
fn begin(library: &Library) {
    const THREAD_MULTIPLE: c_int = 4096;
    type Begin = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
    // SAFETY: the standard says so.
    let begin: Begin = unsafe { library.function(c"MPI_Init_thread") }.unwrap();
    let (none, nothing, mut level) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: the standard allows to give no arguments; the level is a number of this frame.
    assert_eq!(unsafe { begin(none, nothing, THREAD_MULTIPLE, &mut level) }, 0);
}

/// Ends it.
fn end(library: &Library) {
    // SAFETY: the standard says so.
    let end: unsafe extern "C" fn() -> c_int =
        unsafe { library.function(c"MPI_Finalize") }.unwrap();
    // SAFETY: it has begun, and nobody uses it any more.
    assert_eq!(unsafe { end() }, 0);
}

const GROUPS: u32 = 8;
/// How long one waits for the others of a group of its own.
const A_GROUPS_WAIT: Duration = Duration::from_secs(1);
