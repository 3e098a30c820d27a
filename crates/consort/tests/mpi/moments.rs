//! What a test cannot time from outside: ranks that die or stay away where MPI itself waits for them, and what one has
//! done last that comes later than that it has left.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, ReduceOp, Transport};
use consort_testkit::{Context, Mpi, Outcome, Ranks, Skip, skip};

use super::{invited, works};

#[test]
fn a_rank_that_dies_while_a_group_is_made_is_named_at_once() {
    let ranks = match altered(3, 2, "dies when it makes a group") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    outlive(ranks.start(|ctx| meet_in_vain(ctx, Transport::Auto)).wait());
}

#[test]
fn a_rank_that_dies_while_a_group_is_made_is_named_at_once_by_ranks_apart() {
    let ranks = match altered(3, 2, "dies when it makes a group") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    outlive(ranks.start(|ctx| meet_in_vain(ctx, Transport::Tcp)).wait());
}

#[test]
fn a_rank_that_dies_while_mpi_begins_is_named_at_once() {
    let ranks = match altered(3, 2, "dies when it begins") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    outlive(ranks.start(|ctx| meet_in_vain(ctx, Transport::Auto)).wait());
}

#[test]
fn a_rank_that_dies_in_a_call_that_it_has_come_to_is_named_at_once() {
    let ranks = match altered(3, 2, "dies in a call") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let mut job = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        let began = Instant::now();
        let error = group.barrier().unwrap_err();
        assert!(matches!(error, Error::PeerLost { rank: 2, .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "the deadline came first");
        error.to_string()
    });
    outlive(job.wait());
}

/// Waits for the others, of whom rank 2 dies.
fn meet_in_vain(ctx: &Context, transport: Transport) -> String {
    let began = Instant::now();
    let error = invited(ctx, transport).init().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
    assert!(matches!(error, Error::PeerLost { rank: 2, .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "the deadline came first");
    // MPICH's launcher ends everyone when one has ended whom it is about to answer.
    thread::sleep(Duration::from_secs(1));
    error.to_string()
}

/// The first two ranks have done what they should, the third has died.
fn outlive(outcomes: Vec<Outcome<String>>) {
    let [Outcome::Done(_), Outcome::Done(_), Outcome::Exited(_)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
}

#[test]
fn a_group_that_a_rank_does_not_make_has_a_deadline() {
    let ranks = match altered(2, 1, "never makes a group") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let error = invited(ctx, Transport::Auto).timeout(SHORT).init().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadline, "{error:?}");
        error.to_string()
    });
    for error in errors.expect_all() {
        assert!(error.contains("MPI_Comm_create_group"), "{error}");
    }
}

#[test]
fn a_beginning_of_mpi_that_not_all_come_to_has_a_deadline() {
    let ranks = match altered(2, 1, "never begins") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let errors = ranks.start(|ctx| {
        let error = invited(ctx, Transport::Auto).timeout(SHORT).init().unwrap_err();
        assert!(matches!(error, Error::Mpi(_)), "{error:?}");
        error.to_string()
    });
    for error in errors.expect_all() {
        assert!(error.contains("MPI_Init_thread has not come back"), "{error}");
    }
}

#[test]
fn the_last_call_of_a_rank_that_leaves_is_done_however_late_that_is_known() {
    let ranks = match altered(2, 1, "hears late") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let sums = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Tcp).init().unwrap();
        let mut numbers = [ctx.rank() + 1; 3];
        group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap();
        // Rank 0 leaves here.
        drop(group);
        numbers
    });
    assert_eq!(sums.expect_all(), [[3; 3]; 2]);
}

#[test]
fn the_last_message_of_a_rank_that_leaves_arrives_however_late() {
    let ranks = match altered(2, 1, "hears late") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let received = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Tcp).init().unwrap();
        let mut numbers = [7_u16; 100];
        match ctx.rank() {
            0 => group.send(&numbers, 1, 4).unwrap(),
            _ => {
                group.recv(&mut numbers, 0, 4).unwrap();
                // There is no other, which is known when it has said so.
                let began = Instant::now();
                let error = group.recv(&mut numbers, 0, 4).unwrap_err();
                assert!(error.to_string().contains("left"), "{error}");
                assert!(began.elapsed() < Duration::from_secs(60), "the deadline came first");
            }
        }
        numbers[99]
    });
    assert_eq!(received.expect_all(), [7, 7]);
}

#[test]
fn a_message_is_sent_that_a_rank_has_received_before_it_leaves_however_late_that_is_known() {
    let ranks = match altered(2, 0, "hears late") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let received = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Tcp).init().unwrap();
        let mut numbers = vec![ctx.rank(); 30_000];
        match ctx.rank() {
            0 => group.send(&numbers, 1, 4).unwrap(),
            _ => group.recv(&mut numbers, 0, 4).unwrap(),
        }
        numbers[29_999]
    });
    assert_eq!(received.expect_all(), [0, 0]);
}

#[test]
fn a_group_that_mpi_does_not_let_go_of_is_left_to_it() {
    let ranks = match altered(2, 1, "never lets go of a group") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let done = ranks.start(|ctx| {
        for epoch in 0..2 {
            let group = invited(ctx, Transport::Auto).epoch(epoch).init().unwrap();
            works(&group);
            let began = Instant::now();
            drop(group);
            assert!(began.elapsed() < Duration::from_secs(30), "MPI was waited for");
        }
    });
    done.expect_all();
}

#[test]
fn what_nobody_has_received_is_not_for_a_later_group() {
    let ranks = match Ranks::new(2).by_mpi() {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let received = ranks.start(|ctx| {
        for epoch in 0..3 {
            let group = invited(ctx, Transport::Auto).epoch(epoch).init().unwrap();
            let mut number = [epoch];
            match ctx.rank() {
                0 => (0..3).for_each(|_| group.send(&number, 1, 4).unwrap()),
                _ => group.recv(&mut number, 0, 4).unwrap(),
            }
            assert_eq!(number, [epoch]);
            works(&group);
        }
    });
    received.expect_all();
}

/// Ranks that MPI's launcher starts, of whom one has an MPI that differs so.
pub(super) fn altered(world: u32, rank: u32, how: &str) -> Result<Ranks, Skip> {
    let library = library(&Mpi::find()?)?;
    let ranks = Ranks::new(world).by_mpi()?.env("ALTERED", how);
    Ok(ranks.env("ALTERED_RANK", rank.to_string()).env("CONSORT_MPI_LIBRARY", library))
}

/// MPI's library with ours before it. Every process of a test comes here, and the first makes it.
fn library(mpi: &Mpi) -> Result<PathBuf, Skip> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/altered.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let written = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    let library = folder.join("libaltered_mpi.so");
    if written(&library).is_some_and(|made| Some(made) > written(&source)) {
        return Ok(library);
    }
    let (folder_of_mpi, mine) = (mpi.library(), format!("libaltered_mpi.{}", std::process::id()));
    let root = folder_of_mpi.parent().and_then(Path::parent).unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(folder.join(&mine))
        .arg(source)
        .arg("-I")
        .arg(root.join("include"))
        .arg(mpi.library())
        .arg(format!("-Wl,-rpath,{}", root.join("lib").display()))
        .output();
    let made = made.map_err(|_| Skip::new("there is no compiler for C"))?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::rename(folder.join(mine), &library).unwrap();
    Ok(library)
}

/// For waits that have to be in vain, and long enough for all to come.
const SHORT: Duration = Duration::from_secs(5);
