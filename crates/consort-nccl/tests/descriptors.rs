//! Processes that the system gives no more descriptors.

mod support;

use std::ffi::c_int;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort_nccl::api::communicators::*;
use consort_nccl::api::library::*;
use consort_nccl::api::memory::*;
use consort_nccl::api::windows::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Status, UniqueId};
use consort_testkit::{Ranks, await_threads, limit, ranks};
use rustix::process::Resource;

use support::*;

#[test]
fn ranks_of_one_process_that_lack_descriptors_hear_so_at_once_and_nothing_stays() {
    let jobs = Ranks::new(1).env("CONSORT_TIMEOUT", "60s");
    jobs.start(|_| {
        // What the process keeps from then on is there.
        all_here(WORLD).into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
        await_threads(STORE, 0);
        let before = descriptors().len();
        let enough = (0..).step_by(4).find(|&spare| {
            let mut comms = [Handle::new(7); WORLD];
            let status = with_spare(spare, || init_all(&mut comms));
            if status == Status::SUCCESS {
                comms.iter().for_each(|&comm| ok(ncclCommDestroy(comm)));
                return true;
            }
            fails(status, Status::SYSTEM_ERROR, TOO_MANY);
            assert_eq!(comms, [Handle::NULL; WORLD]);
            await_threads(STORE, 0);
            assert_eq!(descriptors().len(), before, "with {spare} to spare");
            false
        });
        let least = WORLD * (WORLD + 2);
        assert!(enough > Some(least), "some fail when they have met in part: {enough:?}");
    })
    .expect_all();
}

#[test]
fn ranks_that_do_not_come_for_want_of_descriptors_take_none_from_others() {
    let jobs = Ranks::new(1);
    jobs.start(|_| {
        let mut comms = [Handle::NULL; 64];
        // One for the other thread, and those that it takes to look.
        with_spare(4, || {
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    for _ in 0..10_000 {
                        fs::File::open("/dev/null").expect("there is one for this thread");
                    }
                });
                while !other.is_finished() {
                    let status = init_all(&mut comms);
                    fails(status, Status::SYSTEM_ERROR, "64 ranks in one process have 4224");
                    assert!(last_error().contains(TOO_MANY), "{}", last_error());
                }
            });
        });
    })
    .expect_all();
}

fn init_all(comms: &mut [Handle]) -> Status {
    let began = Instant::now();
    let status = ncclCommInitAll(outs(comms), comms.len() as c_int, nothing());
    assert!(began.elapsed() < Duration::from_secs(30), "nobody waits for {status:?}");
    status
}

#[test]
fn whoever_waits_for_a_rank_that_lacks_descriptors_hears_so() {
    let jobs = Ranks::new(2).env("CONSORT_TIMEOUT", "60s");
    jobs.start(|ctx| {
        // They are for a door, for whom it lets in, and for what comes through it.
        for spare in 2..5 {
            let id = share(ctx, 0, &format!("id-{spare}"));
            let mut comm = Handle::new(7);
            let mut come = || ncclCommInitRank(out(&mut comm), 2, id, ctx.rank() as c_int);
            if ctx.rank() == 0 {
                let other = "rank 1 cannot do its part of the meeting: cannot ";
                fails(come(), Status::REMOTE_ERROR, other);
                assert!(last_error().contains(TOO_MANY), "{}", last_error());
            } else {
                fails(with_spare(spare, come), Status::SYSTEM_ERROR, TOO_MANY);
            }
            assert_eq!(comm, Handle::NULL);
        }
    })
    .expect_all();
}

#[test]
fn missing_descriptors_are_not_taken_for_missing_memory() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let (mut memory, mut window) = (std::ptr::null_mut(), Handle::NULL);
        ok(ncclMemAlloc(out(&mut memory), PAGE));
        let mut register = || ncclCommWindowRegister(comm, at(memory), PAGE, out(&mut window), 0);
        let status = if ctx.rank() == 0 { register() } else { with_spare(0, register) };
        fails(status, Status::REMOTE_ERROR, "rank 1 cannot go on: ");
        assert!(last_error().contains(TOO_MANY), "{}", last_error());
        assert!(!last_error().contains("0 bytes"), "{}", last_error());
        ok(ncclCommDestroy(comm));
        ok(ncclMemFree(at(memory)));
    });
}

#[test]
fn missing_descriptors_are_not_taken_for_a_mistake() {
    ranks(1, |_| {
        let mut id = UniqueId { internal: [0; 128] };
        let status = with_spare(0, || ncclGetUniqueId(out(&mut id)));
        fails(status, Status::SYSTEM_ERROR, "cannot list the network interfaces: ");
        assert!(last_error().contains(TOO_MANY), "{}", last_error());
    });
}

/// Does something while the system gives no more descriptors than so many.
fn with_spare<T>(spare: usize, body: impl FnOnce() -> T) -> T {
    let here = descriptors();
    let too_many = (0..).filter(|number| !here.contains(number)).nth(spare);
    limit(Resource::Nofile, too_many);
    let result = body();
    limit(Resource::Nofile, None);
    result
}

/// The numbers of those that this process has.
fn descriptors() -> Vec<u64> {
    let listed = fs::read_dir("/proc/self/fd").expect("the system lists them");
    let listed: Vec<_> = listed.map(|entry| entry.expect("it can be read").path()).collect();
    // One of them was there to look.
    let here = listed.iter().filter(|path| path.symlink_metadata().is_ok());
    here.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

const WORLD: usize = 3;
const PAGE: usize = 4096;
const TOO_MANY: &str = "Too many open files";
/// The thread of a store.
const STORE: &str = "consort-store";
