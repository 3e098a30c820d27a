//! Processes that work on one store at the same time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use consort_store::{Store, Swap};
use serde::{Deserialize, Serialize};

use crate::ranks::{Context, Ranks};
use crate::store::subject::soon;

/// Four processes of three threads each count, swap, append, push, pop and meet; afterwards
/// every one of these has happened exactly once.
pub fn many_processes_lose_nothing<H, C>(host: impl FnOnce(&Path) -> (String, H), connect: C)
where
    C: Fn(&Context, &str) -> Arc<dyn Store> + Sync,
{
    let job = Ranks::new(WORLD).named_after(&connect).start(|ctx| {
        let store = connect(ctx, &ctx.told::<String>("address"));
        let mut work: Vec<Work> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (store, member) = (&*store, ctx.rank() * THREADS + thread);
                    scope.spawn(move || work(store, member))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        store.barrier("end", ctx.rank(), WORLD, soon()).expect("barrier");
        work[0].log = store.get("log", soon()).expect("get");
        work[0].swapped = store.get("swapped", soon()).expect("get");
        work
    });
    let (address, _host) = host(&job.dir());
    job.tell("address", &address);
    assert_nothing_lost(&job.expect_all().concat());
}

/// What one thread has done, and on the first of each rank what the store held in the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Work {
    sums: Vec<i64>,
    popped: Vec<Vec<u8>>,
    log: Vec<u8>,
    swapped: Vec<u8>,
}

fn work(store: &dyn Store, member: u32) -> Work {
    let mut work = Work::default();
    for round in 0..ROUNDS {
        let record = [member.to_le_bytes(), round.to_le_bytes()].concat();
        store.push("queue", &record).expect("push");
        work.sums.push(store.add("count", 1).expect("add"));
        store.append("log", &record).expect("append");
        increment(store);
        work.popped.push(store.pop("queue", soon()).expect("pop"));
        if round % 5 == 0 {
            store.barrier("meeting", member, MEMBERS, soon()).expect("barrier");
            let least = i64::from(MEMBERS * (round + 1));
            assert!(store.add("count", 0).expect("add") >= least, "somebody was overtaken");
        }
    }
    work
}

/// Counts by compare and swap, which fails and starts again when another was faster.
fn increment(store: &dyn Store) {
    let mut seen: Option<Vec<u8>> = None;
    loop {
        let count = seen.as_ref().map_or(0, |seen| parse(seen));
        let new = (count + 1).to_string();
        match store.compare_set("swapped", seen.as_deref(), new.as_bytes()).expect("compare_set") {
            Swap::Swapped => return,
            Swap::Differs(now) => seen = Some(now),
            Swap::Missing => panic!("a counter does not vanish"),
        }
    }
}

fn assert_nothing_lost(work: &[Work]) {
    let total = MEMBERS * ROUNDS;
    let mut sums: Vec<i64> = work.iter().flat_map(|work| work.sums.clone()).collect();
    sums.sort_unstable();
    assert!(sums.into_iter().eq(1..=i64::from(total)), "a sum is missing or was given out twice");

    let all: BTreeSet<Vec<u8>> = (0..MEMBERS)
        .flat_map(|member| (0..ROUNDS).map(move |round| (member, round)))
        .map(|(member, round)| [member.to_le_bytes(), round.to_le_bytes()].concat())
        .collect();
    let popped: Vec<&Vec<u8>> = work.iter().flat_map(|work| &work.popped).collect();
    assert_eq!(popped.len(), total as usize);
    assert!(popped.into_iter().collect::<BTreeSet<_>>().into_iter().eq(&all));

    for work in work.iter().step_by(THREADS as usize) {
        let mut records: Vec<Vec<u8>> = work.log.chunks(8).map(<[u8]>::to_vec).collect();
        records.sort_unstable();
        assert!(records.iter().eq(&all), "the log lost or tore a record");
        assert_eq!(parse(&work.swapped), total);
    }
}

fn parse(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

const WORLD: u32 = 4;
const THREADS: u32 = 3;
const MEMBERS: u32 = WORLD * THREADS;
const ROUNDS: u32 = 100;
