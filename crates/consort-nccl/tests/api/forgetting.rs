//! What NCCL takes its time to forget, and how it forgets communicators.

use std::ffi::CStr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use consort::nccl::{Bootstrap, Comm, Config, Error, Library, Memory, WindowOptions};
use consort_sys::dl;
use consort_testkit::{Context, Skip, ranks, skip};

use crate::old::build;

#[test]
fn memory_is_given_back_when_nccl_has_forgotten_it() {
    let done = ranks(1, |ctx| {
        let Ok(slow) = Slow::of(ctx) else { return false };
        let comm = slow.comm(Duration::from_secs(30));
        let memory = slow.memory();
        let (known, window) = (
            comm.register(&memory).unwrap(),
            comm.window(&memory, WindowOptions::default()).unwrap(),
        );
        drop(memory);
        slow.be_patient(100);
        drop(known);
        assert_eq!(slow.freed(), 0, "the window still knows it");
        window.forget().unwrap();
        assert_eq!((slow.freed(), slow.freed_early()), (1, 0));
        comm.destroy().unwrap();
        true
    });
    skip_unless(&done);
}

#[test]
fn memory_that_nccl_does_not_forget_stays_until_the_communicator_has_ended() {
    let done = ranks(1, |ctx| {
        let Ok(slow) = Slow::of(ctx) else { return false };
        let comm = slow.comm(Duration::from_millis(200));
        let [one, other] = [slow.memory(), slow.memory()];
        let (known, window) =
            (comm.register(&one).unwrap(), comm.window(&other, WindowOptions::default()).unwrap());
        drop((one, other));
        slow.be_patient(i32::MAX);
        let error = window.forget().unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        drop(known);
        assert_eq!(slow.freed(), 0);
        comm.abort().unwrap();
        drop(comm);
        assert_eq!((slow.freed(), slow.freed_early()), (2, 0), "both went with the communicator");
        true
    });
    skip_unless(&done);
}

#[test]
fn memory_that_nccl_may_still_get_to_know_stays() {
    let done = ranks(1, |ctx| {
        let Ok(slow) = Slow::of(ctx) else { return false };
        let comm = slow.comm(Duration::from_millis(200));
        slow.be_patient(i32::MAX);
        let error = comm.register(&slow.memory()).unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert_eq!(slow.freed(), 0);
        comm.abort().unwrap();
        drop(comm);
        let comm = slow.comm(Duration::from_secs(30));
        slow.be_patient(100);
        let known = comm.register(&slow.memory()).unwrap();
        assert_eq!(slow.freed(), 1, "that of the first went with it");
        known.forget().unwrap();
        assert_eq!((slow.freed(), slow.freed_early()), (2, 0));
        comm.destroy().unwrap();
        true
    });
    skip_unless(&done);
}

#[test]
fn what_nccl_is_about_to_forget_is_forgotten_with_the_communicator() {
    let done = ranks(1, |ctx| {
        let Ok(slow) = Slow::of(ctx) else { return false };
        let comm = slow.comm(Duration::from_secs(600));
        let memory = slow.memory();
        let window = comm.window(&memory, WindowOptions::default()).unwrap();
        drop(memory);
        slow.be_patient(i32::MAX);
        let began = Instant::now();
        thread::scope(|scope| {
            let dropping = scope.spawn(|| drop(window));
            thread::sleep(Duration::from_millis(100));
            assert_eq!(slow.freed(), 0);
            comm.abort().unwrap();
            dropping.join().unwrap();
        });
        assert_eq!((slow.freed(), slow.freed_early()), (1, 0));
        assert!(began.elapsed() < Duration::from_secs(60));
        true
    });
    skip_unless(&done);
}

#[test]
fn one_that_is_dropped_is_aborted_and_if_it_was_finalized_destroyed() {
    let done = ranks(1, |ctx| {
        let Ok(slow) = Slow::of(ctx) else { return false };
        let comm = || slow.comm(Duration::from_secs(30));
        drop(comm());
        assert_eq!(slow.ended(), (0, 1));
        let finalized = comm();
        finalized.finalize().unwrap();
        drop(finalized);
        assert_eq!(slow.ended(), (1, 1));
        comm().destroy().unwrap();
        assert_eq!(slow.ended(), (2, 1));
        true
    });
    skip_unless(&done);
}

fn skip_unless(done: &[bool]) {
    if done != [true] {
        skip("there is no C compiler that makes a slow NCCL");
    }
}

/// The NCCL of `slow.c`.
struct Slow {
    library: Library,
    file: dl::Library,
}

impl Slow {
    fn of(ctx: &Context) -> Result<Self, Skip> {
        let path: PathBuf = ctx.dir().join("libslow.so");
        let library = build("slow.c", &path, 23_007)?;
        Ok(Self { library, file: dl::Library::open([path]).unwrap() })
    }

    /// A communicator that waits so long for what is in progress.
    fn comm(&self, limit: Duration) -> Comm {
        let bootstrap = Bootstrap::new(self.library).unwrap();
        let config = Config::new().timeout(limit);
        Comm::init_rank_with(self.library, 1, bootstrap.id(), 0, &config).unwrap()
    }

    fn memory(&self) -> Memory {
        Memory::new(self.library, 4096).unwrap()
    }

    /// Has it take so many looks from now on.
    fn be_patient(&self, looks: i32) {
        // SAFETY: that is its type.
        let set: Option<extern "C" fn(i32)> = unsafe { self.file.function(c"slowPatience") };
        set.unwrap()(looks);
    }

    /// How much memory was given back.
    fn freed(&self) -> i32 {
        self.count(c"slowFreed")
    }

    /// How much of it too early.
    fn freed_early(&self) -> i32 {
        self.count(c"slowEarly")
    }

    /// How many communicators were destroyed, and how many aborted.
    fn ended(&self) -> (i32, i32) {
        (self.count(c"slowDestroyed"), self.count(c"slowAborted"))
    }

    fn count(&self, of: &CStr) -> i32 {
        // SAFETY: that is the type of all of them.
        let count: Option<extern "C" fn() -> i32> = unsafe { self.file.function(of) };
        count.unwrap()()
    }
}
