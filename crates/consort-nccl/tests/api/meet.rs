//! How the ranks of a test meet.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use consort::nccl::{Bootstrap, Comm, Config, Library, UniqueId};
use consort_testkit::Context;

/// Consort's own NCCL, which was built with this test.
pub(crate) fn library() -> Library {
    Library::open(path()).unwrap()
}

/// Where it is.
pub(crate) fn path() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().join("libconsort_nccl.so")
}

/// All ranks of a test, in one communicator.
pub(crate) fn comm(ctx: &Context) -> Comm {
    comm_with(ctx, "all", &Config::new().timeout(Duration::from_secs(30)))
}

/// All ranks of a test, in a communicator of their choice.
pub(crate) fn comm_with(ctx: &Context, name: &str, config: &Config) -> Comm {
    let library = library();
    if ctx.rank() == 0 {
        let bootstrap = Bootstrap::new(library).unwrap();
        publish(&ctx.dir().join(name), bootstrap.id());
        return Comm::init_rank_with(library, ctx.world(), bootstrap.id(), 0, config).unwrap();
    }
    let id = await_id(&ctx.dir().join(name));
    Comm::init_rank_with(library, ctx.world(), &id, ctx.rank(), config).unwrap()
}

/// Leaves an id for others.
pub(crate) fn publish(place: &Path, id: &UniqueId) {
    let written = place.with_extension("new");
    fs::write(&written, id.as_bytes()).unwrap();
    fs::rename(&written, place).unwrap();
}

/// Waits for an id that somebody leaves.
pub(crate) fn await_id(place: &Path) -> UniqueId {
    loop {
        match fs::read(place) {
            Ok(bytes) => return UniqueId::from_bytes(&bytes).unwrap(),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}
