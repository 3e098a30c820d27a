//! What the headers say, and what the library has.

use std::ffi::c_int;
use std::mem::{offset_of, size_of};

use consort_nccl::raw::Handle;
use consort_nccl::{Config, SimInfo, Status, Team, UniqueId, WaitSignalDesc};
use consort_sys::dl::Library;

use crate::compiled::{built, here, said_by, with_our_headers};

#[test]
fn the_headers_say_how_things_are_laid_out() {
    let Some(said) = said_by(&here("tests/c/layout.c"), &with_our_headers()) else { return };
    let mut known = layout();
    known.sort();
    assert_eq!(said, known);
}

/// As the program prints it.
fn layout() -> Vec<String> {
    let mut lines: Vec<String> = [
        ("ncclUniqueId", size_of::<UniqueId>()),
        ("ncclConfig_t", size_of::<Config>()),
        ("ncclSimInfo_t", size_of::<SimInfo>()),
        ("ncclWaitSignalDesc_t", size_of::<WaitSignalDesc>()),
        ("ncclTeam_t", size_of::<Team>()),
        // It is taken for a handle, since there are none.
        ("ncclMultimemHandle_t", size_of::<Handle>()),
        ("ncclResult_t", size_of::<Status>()),
        ("ncclRedOp_t", size_of::<c_int>()),
        ("ncclDataType_t", size_of::<c_int>()),
        ("ncclScalarResidence_t", size_of::<c_int>()),
        ("ncclCommMemStat_t", size_of::<c_int>()),
    ]
    .map(|(name, size)| format!("{name} {size}"))
    .into();
    macro_rules! fields {
        ($($name:literal $type:ty: $($field:ident)*;)*) => {$($(
            lines.push(format!("{}.{} {}", $name, stringify!($field), offset_of!($type, $field)));
        )*)*};
    }
    macro_rules! initial {
        ($($name:literal $type:ty: $($field:ident)*;)*) => {$($(
            let (at, first) = (offset_of!($type, $field), <$type>::INITIAL.$field as i64);
            lines.push(format!("{}.{} {at} {first}", $name, stringify!($field)));
        )*)*};
    }
    initial! {
        "ncclConfig_t" Config: size magic version blocking cgaClusterSize minCTAs maxCTAs netName splitShare
            trafficClass commName collnetEnable CTAPolicy shrinkShare nvlsCTAs nChannelsPerNetPeer
            nvlinkCentricSched graphUsageMode numRmaCtx maxP2pPeers graphStreamOrdering;
        "ncclSimInfo_t" SimInfo: size magic version estimatedTime;
    }
    fields! {
        "ncclWaitSignalDesc_t" WaitSignalDesc: opCnt peer sigIdx ctx;
        "ncclTeam_t" Team: nRanks rank stride;
    }
    lines
}

#[test]
fn everything_that_the_headers_name_is_exported_under_both_names() {
    let library = Library::open([built("libconsort_nccl.so")]).unwrap();
    let mut count = 0;
    for header in ["nccl.h", "consort_nccl.h"] {
        let text = std::fs::read_to_string(here("include").join(header)).unwrap();
        for name in functions(&text) {
            let name = std::ffi::CString::new(name).unwrap();
            // SAFETY: it is not called.
            let found = unsafe { library.function::<unsafe extern "C" fn()>(&name) };
            assert!(found.is_some(), "{name:?}");
            count += 1;
        }
        if header == "nccl.h" {
            let names = functions(&text);
            let plain = names.iter().filter(|name| name.starts_with("nccl"));
            plain.for_each(|name| assert!(names.contains(&format!("p{name}")), "{name}"));
        }
    }
    assert!(count > 150, "{count}");
}

/// The names before a parenthesis that a line of a declaration begins with.
fn functions(header: &str) -> Vec<String> {
    let is_name = |name: &&str| ["nccl", "pnccl", "consort"].iter().any(|it| name.starts_with(it));
    header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split_once('(').map(|(before, _)| before))
        .filter_map(|before| before.rsplit([' ', '*']).next())
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}
