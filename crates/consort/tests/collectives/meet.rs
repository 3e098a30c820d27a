//! How the ranks of a test meet, and how their results are compared.

use std::time::Duration;

use consort::Group;
use consort_testkit::Context;

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(Duration::from_secs(100)).init().unwrap()
}

/// What a rank got in all calls whose results are the same everywhere.
#[derive(Default)]
pub(crate) struct Digest(blake3::Hasher);

impl Digest {
    pub(crate) fn add(&mut self, result: &[u8]) {
        self.0.update(result);
    }

    pub(crate) fn value(&self) -> String {
        self.0.finalize().to_string()
    }
}

/// Every rank got the same bits.
pub(crate) fn agree(digests: &[String]) {
    assert_eq!(digests, vec![digests[0].clone(); digests.len()]);
}

/// A test for each of these worlds and kinds of groups (results whose bits depend on the order of
/// ranks are those of shared memory among up to three that have none), in which every rank checks its results and returns a digest of
/// those that are the same everywhere.
macro_rules! in_worlds {
    ($check:path: $($name:ident $world:literal $kinds:tt)*) => {$(
        consort_testkit::conformance! { $kinds $name }

        fn $name(case: consort_testkit::Case) {
            let job = case.of($world).limit($crate::meet::LIMIT).start(|ctx| {
                let mut digest = $crate::meet::Digest::default();
                $check(&$crate::meet::meet(ctx), &mut digest);
                digest.value()
            });
            $crate::meet::agree(&job.expect_all());
        }
    )*};
}
pub(crate) use in_worlds;

/// Thousands of calls take seconds, but somebody else may be using the cores.
pub(crate) const LIMIT: Duration = Duration::from_secs(110);
