//! Ranks that have a device each.

use std::path::PathBuf;
use std::time::Duration;

use consort::device::{Device, Driver, Memory};
use consort::{Builder, Element, Group};
use consort_testkit::{Context, Outcome, Ranks};

/// Ranks that find this library in place of CUDA's driver and of NCCL. Memory that it gives is not zero.
pub(crate) fn with_devices(world: u32) -> Ranks {
    let library = library();
    let ranks = Ranks::new(world).env("MALLOC_PERTURB_", "90");
    ranks.env("CONSORT_CUDA_LIBRARY", &library).env("CONSORT_NCCL_LIBRARY", &library)
}

/// Ranks that find CUDA's driver, and no NCCL.
pub(crate) fn without_nccl(world: u32) -> Ranks {
    with_devices(world).env("CONSORT_NCCL_LIBRARY", "/nowhere/libnccl.so.2")
}

/// The shared library, which is built with its tests.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libconsort_nccl.so")).filter(|it| it.exists());
    found.into_iter().next().expect("the library was built with the tests")
}

/// The group of all ranks.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).init().unwrap()
}

/// All that a rank needs to meet the others.
pub(crate) fn invited(ctx: &Context) -> Builder {
    let place = format!("file://{}", ctx.dir().join("meeting").display());
    let builder = Builder::new().rank(ctx.rank()).world(ctx.world()).timeout(LONG);
    builder.address(&place).unwrap()
}

/// This rank's device.
pub(crate) fn device(group: &Group) -> Device {
    Driver::load().unwrap().device(group.local_rank() as u16).unwrap()
}

/// Numbers on a device.
pub(crate) fn upload<T: Element>(device: &Device, numbers: &[T]) -> Memory {
    let bytes = T::source(numbers).to_vec();
    let mut memory = device.allocate(bytes.len()).unwrap();
    memory.write(0, &bytes).unwrap();
    memory
}

/// The numbers there.
pub(crate) fn download<T: Element>(memory: &Memory) -> Vec<T> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    consort_sys::view::collect(bytes.len() / size_of::<T>(), [(&bytes[..]).into()]).unwrap()
}

/// Whether rank 1 was killed, and all others have heard of it.
#[track_caller]
pub(crate) fn all_heard_of_rank_1(outcomes: &[Outcome<String>]) {
    for (rank, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Outcome::Signalled(9) => assert_eq!(rank, 1),
            Outcome::Done(heard) => assert!(heard.contains("rank 1 is gone"), "{heard}"),
            other => panic!("rank {rank}: {other:?}"),
        }
    }
    assert!(matches!(outcomes[1], Outcome::Signalled(9)), "{:?}", outcomes[1]);
}

/// Makes a test of each world out of functions.
macro_rules! in_worlds {
    ($($name:ident)*) => {$(
        mod $name {
            use crate::stage::with_devices;

            #[test]
            fn of_one() {
                with_devices(1).start(|ctx| super::$name(ctx)).expect_all();
            }

            #[test]
            fn of_two() {
                with_devices(2).start(|ctx| super::$name(ctx)).expect_all();
            }

            #[test]
            fn of_three() {
                with_devices(3).start(|ctx| super::$name(ctx)).expect_all();
            }

            #[test]
            fn of_four() {
                with_devices(4).start(|ctx| super::$name(ctx)).expect_all();
            }
        }
    )*};
}
pub(crate) use in_worlds;

pub(crate) const LONG: Duration = Duration::from_secs(60);
