//! Hosts that cannot reach each other any more.

use std::thread;
use std::time::Duration;

use consort::{Error, ErrorKind};
use consort_testkit::{Case, conformance};

use super::stream;
use crate::meet::{LIMIT, meet};

conformance! { [mixed] a_host_whose_cable_is_pulled_is_missed_and_misses_the_others }

/// Nobody is told that packets are lost; the silence has to be noticed, on both sides.
fn a_host_whose_cable_is_pulled_is_missed_and_misses_the_others(case: Case) {
    let mut job = case.of(4).limit(LIMIT).start(|ctx| {
        let group = meet(ctx);
        ctx.reach("at work");
        let error = stream(&group);
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        let Error::PeerLost { rank, .. } = &error else { panic!("{error}") };
        assert_ne!(rank / 2, ctx.rank() / 2, "{error}");
    });
    for rank in 0..4 {
        job.await_point(rank, "at work");
    }
    thread::sleep(Duration::from_millis(100));
    job.hosts().expect("they are on hosts").cut(1);
    job.expect_all();
}
