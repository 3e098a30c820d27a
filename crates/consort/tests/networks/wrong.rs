//! Memory that changes by itself: a thread that writes where the results go, past all borrowing, as a
//! stray pointer or a broken chip does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use consort::{Builder, Error, Group, ReduceOp, Transport};
use consort_testkit::{Context, Ranks};

use crate::meet::{LIMIT, LONG};

#[test]
fn a_rank_whose_memory_changes_is_named_to_all_ranks_of_a_host() {
    let job = Ranks::new(3).limit(LIMIT).start(|ctx| suffer(ctx, Transport::Shm));
    assert_eq!(job.expect_all(), [[1], [1], [1]]);
}

#[test]
fn memory_that_changes_on_one_of_two_ranks_ends_a_group_over_tcp() {
    let job = Ranks::new(2).limit(LIMIT).start(|ctx| suffer(ctx, Transport::Tcp));
    assert_eq!(job.expect_all(), [[0, 1], [0, 1]]);
}

/// Adds up numbers until somebody notices that rank 1 gets other sums than the rest. Says who that is.
fn suffer(ctx: &Context, transport: Transport) -> Vec<u32> {
    let path = ctx.dir().join("meeting");
    let address = format!("file://{}?rank={}&world={}", path.display(), ctx.rank(), ctx.world());
    let builder = Builder::new().address(&address).unwrap().transport(transport).timeout(LONG);
    let group = builder.verify_results(2).init().unwrap();
    let mut sums = vec![0_u64; 100_000];
    let place = sums.as_ptr().addr() as u64;
    let (stop, stopped) = channel();
    thread::scope(|scope| {
        if group.rank() == 1 {
            scope.spawn(move || write_over(place, &stopped));
        }
        let error = add_up(&group, &mut sums);
        drop(stop);
        match error {
            Error::Diverged { ranks, first, last, .. } => {
                assert!(last.is_multiple_of(2) && first == last - 1, "{first} to {last}");
                ranks
            }
            other => panic!("{other}"),
        }
    })
}

fn add_up(group: &Group, sums: &mut [u64]) -> Error {
    let numbers: Vec<u64> = (0..sums.len() as u64).collect();
    loop {
        if let Err(error) = group.all_reduce_into(&numbers, sums, ReduceOp::Sum) {
            return error;
        }
    }
}

/// Writes what is no sum where the first one goes, again and again.
fn write_over(place: u64, stopped: &Receiver<()>) {
    let memory = File::options().write(true).open("/proc/self/mem").unwrap();
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        memory.write_all_at(&[0xff; 8], place).unwrap();
    }
}
