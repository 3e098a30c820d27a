//! What MPI begins with and then fails at. It says so once, and those are told who need it.

use std::time::{Duration, Instant};

use consort::{Error, Group, Transport};
use consort_testkit::{Context, skip};

use super::invited;
use super::moments::altered;

#[test]
fn a_message_that_mpi_loses_ends_the_group() {
    let ranks = match altered(2, 0, "loses what it sends") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        let error = match ctx.rank() {
            0 => {
                group.send(&[1_u8; 9], 1, 4).unwrap();
                group.send(&[2_u8; 9], 1, 4).unwrap_err()
            }
            _ => group.recv(&mut [0_u8; 9], 0, 4).unwrap_err(),
        };
        end(group, error)
    });
    for told in told.expect_all() {
        assert!(told.contains("MPI has failed: MPI_Test"), "{told}");
    }
}

#[test]
fn a_last_message_that_mpi_loses_is_not_waited_for() {
    let ranks = match altered(2, 0, "loses what it sends") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    check_last(ranks.start(|ctx| send_last(ctx, Transport::Auto)).expect_all());
}

#[test]
fn a_last_message_that_mpi_loses_is_not_waited_for_by_ranks_apart() {
    let ranks = match altered(2, 0, "loses what it sends") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    check_last(ranks.start(|ctx| send_last(ctx, Transport::Tcp)).expect_all());
}

/// Rank 0 sends what is lost, and leaves before it can know.
fn send_last(ctx: &Context, transport: Transport) -> String {
    let group = invited(ctx, transport).init().unwrap();
    if ctx.rank() == 0 {
        group.send(&[1_u8; 9], 1, 4).unwrap();
        return String::new();
    }
    let error = group.recv(&mut [0_u8; 9], 0, 4).unwrap_err();
    end(group, error)
}

fn check_last(told: Vec<String>) {
    let parts = ["its last messages are lost", "MPI has failed: MPI_Test"];
    assert!(parts.iter().all(|part| told[1].contains(part)), "{told:?}");
}

#[test]
fn a_message_that_mpi_cannot_receive_ends_the_group() {
    let ranks = match altered(2, 1, "loses what comes") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        if ctx.rank() == 0 {
            group.send(&[1_u8; 9], 1, 4).unwrap();
        }
        let error = group.recv(&mut [0_u8; 9], 1 - ctx.rank(), 4).unwrap_err();
        end(group, error)
    });
    for told in told.expect_all() {
        assert!(told.contains("MPI has failed: MPI_Test"), "{told}");
    }
}

#[test]
fn a_rank_whose_goodbye_mpi_loses_has_left_all_the_same() {
    let ranks = match altered(2, 1, "loses goodbyes") {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let told = ranks.start(|ctx| {
        let group = invited(ctx, Transport::Auto).init().unwrap();
        if ctx.rank() == 0 {
            return String::new();
        }
        let began = Instant::now();
        let error = group.recv(&mut [0_u8; 9], 0, 4).unwrap_err();
        assert!(began.elapsed() < SOON, "the deadline came first");
        error.to_string()
    });
    let told = told.expect_all();
    assert!(told[1].contains("left"), "{told:?}");
}

/// Leaves a group that has ended with this error: soon, and without a panic.
fn end(group: Group, error: Error) -> String {
    assert!(group.recv(&mut [0_u8; 9], 1 - group.rank().get(), 4).is_err(), "it goes on");
    let began = Instant::now();
    drop(group);
    assert!(began.elapsed() < SOON, "MPI was waited for");
    error.to_string()
}

const SOON: Duration = Duration::from_secs(30);
