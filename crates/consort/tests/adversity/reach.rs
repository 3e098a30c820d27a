//! Ranks whose memory cannot be read any more.

use std::thread;
use std::time::Duration;

use consort::{Error, ErrorKind, Group, Result};
use consort_sys::reach::{Beacon, Reach, Sight};
use consort_testkit::{Outcome, Ranks, ranks, skip};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::meet::{meet, works};

/// Whoever is killed while its memory is read is gone before it is known to be.
#[test]
fn a_rank_that_is_killed_while_it_is_read_is_the_one_that_is_blamed() {
    let mut job = Ranks::new(2 * PAIRS).start(|ctx| {
        let world = meet(ctx);
        let pair = world.split(Some(ctx.rank() / 2), 0).unwrap().unwrap();
        ctx.reach("here");
        let error = exchange_for_ever(&pair).to_string();
        assert!(error.starts_with(&format!("group {}: rank 1 is gone", pair.name())), "{error}");
    });
    for rank in 0..2 * PAIRS {
        job.await_point(rank, "here");
    }
    for pair in 0..PAIRS {
        thread::sleep(Duration::from_millis(20 + 7 * u64::from(pair)));
        job.kill(2 * pair + 1);
    }
    for (rank, outcome) in job.wait().into_iter().enumerate() {
        let expected = if rank % 2 == 1 { Outcome::Signalled(9) } else { Outcome::Done(()) };
        assert_eq!(outcome, expected, "rank {rank}");
    }
}

#[test]
fn ranks_that_give_up_rights_after_init_are_told_that_this_is_why() {
    let reached = ranks(2, |ctx| {
        let world = meet(ctx);
        let groups: Vec<Group> =
            (0..3).map(|_| world.split(Some(0), 0).unwrap().unwrap()).collect();
        if !reach_each_other(&world) {
            return false;
        }
        groups.iter().for_each(|group| exchange(group).unwrap());
        // One that is no longer dumped is read only by those who may look at every process.
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::SYS_PTRACE);
        set_capabilities(None, sets).unwrap();
        set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
        world.barrier().unwrap();
        let (peer, mut there) = (1 - ctx.rank(), vec![0_u8; LARGE]);
        let errors = [
            exchange(&groups[0]),
            groups[1].send_recv(&vec![1_u8; LARGE], peer, &mut there, peer, 7),
        ];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::System);
            let Error::Unable { reason, .. } = &error else { panic!("{error}") };
            assert!(reason.contains("Operation not permitted"), "{error}");
            assert!(reason.ends_with("ranks have to do that before init"), "{error}");
        }
        // What goes through shared memory goes on.
        works(&groups[2]);
        works(&world);
        true
    });
    if reached.contains(&false) {
        skip("processes may not read each other's memory here".to_owned());
    }
}

/// Whether both of two ranks can read the other's memory.
fn reach_each_other(group: &Group) -> bool {
    let beacon = Beacon::light().unwrap();
    let Sight { address, light } = beacon.sight();
    let mut sights = [0_u64; 6];
    group.all_gather(&[u64::from(std::process::id()), address, light], &mut sights).unwrap();
    let theirs = &sights[3 * (1 - group.rank().index())..];
    let sight = Sight { address: theirs[1], light: theirs[2] };
    let mut both = [0_u8; 2];
    let mine = u8::from(Reach::try_out(theirs[0] as u32, sight).is_some());
    group.all_gather(&[mine], &mut both).unwrap();
    both == [1; 2]
}

fn exchange_for_ever(group: &Group) -> Error {
    loop {
        if let Err(error) = exchange(group) {
            return error;
        }
    }
}

/// So much that it is read where it is.
fn exchange(group: &Group) -> Result<()> {
    let mut theirs = vec![0_u8; LARGE];
    group.all_to_all(&vec![1_u8; LARGE], &mut theirs)
}

const PAIRS: u32 = 8;
const LARGE: usize = 256 << 10;
