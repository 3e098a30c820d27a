//! The kinds of groups that one test is to hold for.

use super::{Context, Ranks, test_of};
use crate::skip::Skip;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the ranks of a test live together, and so over what their data travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Processes on one host that share memory.
    Shm,
    /// Processes on one host that are to use TCP.
    Tcp,
    /// Processes on two hosts, in blocks.
    Mixed,
    /// Threads of one process.
    InProcess,
    /// Processes on one host that MPI's own launcher starts, and whose data MPI is to carry. The launcher has them in its
    /// care: they can be neither killed nor stopped from outside, and their output is in one piece.
    Mpi,
}

/// A test for one kind of group. [`conformance!`](crate::conformance) makes them.
#[derive(Debug)]
#[must_use = "nothing runs before ranks are started"]
pub struct Case {
    ranks: Ranks,
}

impl Kind {
    /// By its name in [`conformance!`](crate::conformance).
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn named(name: &str) -> Self {
        match name {
            "shm" => Self::Shm,
            "tcp" => Self::Tcp,
            "mixed" => Self::Mixed,
            "in_process" => Self::InProcess,
            "mpi" => Self::Mpi,
            _ => panic!("there is no kind of group called {name}"),
        }
    }
}

impl Case {
    /// The test function with this path, which is to run for this kind.
    ///
    /// # Errors
    /// Where it needs hosts that are not to be had.
    pub fn new(kind: Kind, path: &str) -> Result<Self, Skip> {
        let mut ranks = Ranks::new(1);
        ranks.kind = kind;
        ranks.test = Some(test_of(path));
        match kind {
            Kind::Mixed => ranks = ranks.on_hosts(2)?.in_blocks(),
            Kind::Mpi => ranks = ranks.by_mpi()?,
            Kind::Shm | Kind::Tcp | Kind::InProcess => {}
        }
        Ok(Self { ranks })
    }

    /// So many ranks, to be started.
    pub fn of(mut self, world: u32) -> Ranks {
        self.ranks.world = world;
        self.ranks
    }

    /// Runs `body` in so many ranks and returns what each returned, as [`ranks`](super::ranks())
    /// does.
    pub fn run<T>(self, world: u32, body: impl Fn(&Context) -> T + Sync) -> Vec<T>
    where
        T: Serialize + DeserializeOwned,
    {
        self.of(world).start(body).expect_all()
    }
}

/// Tests for several kinds of groups: for each function, which takes a [`Case`], a module of its
/// name with a test for each of the [kinds](Kind).
///
/// ```no_run
/// use consort_testkit::{Case, conformance};
///
/// conformance! { [shm tcp mixed in_process mpi] ranks_know_who_they_are }
///
/// fn ranks_know_who_they_are(case: Case) {
///     assert_eq!(case.run(3, |ctx| ctx.rank()), [0, 1, 2]);
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    ($kinds:tt $($test:ident)+) => {$(
        $crate::conformance! { @one $test $kinds }
    )+};
    (@one $test:ident [$($kind:ident)+]) => {
        mod $test {$(
            #[test]
            fn $kind() {
                let path = concat!(module_path!(), "::", stringify!($kind));
                match $crate::Case::new($crate::Kind::named(stringify!($kind)), path) {
                    Ok(case) => super::$test(case),
                    Err(reason) => $crate::skip(reason),
                }
            }
        )+}
    };
}
