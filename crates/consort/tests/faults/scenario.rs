//! A fault, the kind of group it is done to, and the way its ranks call.

use std::time::Duration;

use consort_testkit::{Case, Kind, Ranks, Skip};

use crate::numbers::Style;

/// One cell of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// What is done, in words.
    pub(crate) fault: &'static str,
    kind: &'static str,
    style: &'static str,
    /// The path of the test.
    path: &'static str,
}

impl Scenario {
    pub(crate) fn new(
        fault: &'static str,
        kind: &'static str,
        style: &'static str,
        path: &'static str,
    ) -> Self {
        Self { fault, kind, style, path }
    }

    pub(crate) fn style(&self) -> Style {
        Style::named(self.style)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::named(self.kind)
    }

    /// So many ranks: on one host, or half of them on each of two.
    pub(crate) fn ranks(&self, world: u32) -> Result<Ranks, Skip> {
        Ok(Case::new(self.kind(), self.path)?.of(world).limit(LIMIT))
    }

    /// So many hosts, each with its ranks.
    pub(crate) fn hosts(&self, hosts: u32) -> Result<Ranks, Skip> {
        let ranks = Case::new(Kind::Tcp, self.path)?.of(hosts * self.ranks_of_a_host());
        Ok(ranks.limit(LIMIT).on_hosts(hosts as usize)?.in_blocks())
    }

    /// So many ranks on three hosts: with five of them the last one is by itself.
    pub(crate) fn on_three_hosts(&self, world: u32) -> Result<Ranks, Skip> {
        let ranks = Case::new(Kind::Tcp, self.path)?.of(world);
        Ok(ranks.limit(LIMIT).on_hosts(3)?.in_blocks())
    }

    /// How many ranks are on each host: two where they also share memory.
    pub(crate) fn ranks_of_a_host(&self) -> u32 {
        if self.kind() == Kind::Mixed { 2 } else { 1 }
    }

    /// The test as its runner knows it.
    pub(crate) fn test(&self) -> &'static str {
        self.path.split_once("::").map_or(self.path, |(_, test)| test)
    }

    /// The cell's name in a table.
    pub(crate) fn name(&self) -> String {
        format!("{:<46} {:<6} {:<12}", self.fault.replace('_', " "), self.kind, self.style)
    }
}

/// Makes a test of every fault for each of the kinds of groups and each of the ways to call: a module with
/// the fault's name, in it one for each kind, and in that a test for each way.
macro_rules! faults {
    ($kinds:tt $styles:tt $($fault:ident)+) => {$(
        $crate::scenario::faults! { @kinds $fault $kinds $styles }
    )+};
    (@kinds $fault:ident [$($kind:ident)+] $styles:tt) => {
        mod $fault {$(
            mod $kind {
                $crate::scenario::faults! { @styles $fault $kind $styles }
            }
        )+}
    };
    (@styles $fault:ident $kind:ident [$($style:ident)+]) => {$(
        #[test]
        fn $style() {
            let path = concat!(module_path!(), "::", stringify!($style));
            let (fault, kind, style) = (stringify!($fault), stringify!($kind), stringify!($style));
            let scenario = $crate::scenario::Scenario::new(fault, kind, style, path);
            if let Err(reason) = super::super::$fault(scenario) {
                consort_testkit::skip(reason);
            }
        }
    )+};
}

pub(crate) use faults;

/// How long a scenario may take where others use the cores.
const LIMIT: Duration = Duration::from_secs(100);
