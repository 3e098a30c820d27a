//! Several processes on one store, and what is left when one of them is killed.
//!
//! Each function takes two closures: `host` runs in the first process, gets a directory for
//! files, and returns the store's address with whatever keeps it there; `connect` runs in every
//! rank. [`store_across_processes!`](crate::store_across_processes) makes a test of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Store, Swap};
use serde::{Deserialize, Serialize};

use super::subject::soon;
use crate::ranks::{Context, Ranks};

/// Makes a module with one test for every promise that needs several processes.
///
/// ```no_run
/// # use std::{path::Path, sync::Arc};
/// # use consort_store::{MemStore, Store};
/// # use consort_testkit::Context;
/// # struct Server;
/// # impl Server { fn start() -> Self { Self } fn address(&self) -> String { String::new() } }
/// # fn connect_to(_: &str) -> Arc<dyn Store> { Arc::new(MemStore::new()) }
/// consort_testkit::store_across_processes!(
///     my_store,
///     |_dir: &Path| {
///         let server = Server::start();
///         (server.address(), server)
///     },
///     |_ctx: &Context, address: &str| connect_to(address)
/// );
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_across_processes {
    ($module:ident, $host:expr, $connect:expr $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "the closures may need nothing from around them")]
            use super::*;

            $crate::store_across_processes! { @tests $host, $connect;
                many_processes_lose_nothing,
                a_killed_process_leaves_whole_data,
                a_killed_process_takes_no_element_along,
            }
        }
    };
    (@tests $host:expr, $connect:expr; $case:ident, $($more:ident,)*) => {
        #[test]
        fn $case() {
            $crate::store::processes::$case($host, |ctx, address| ($connect)(ctx, address));
        }
        $crate::store_across_processes! { @tests $host, $connect; $($more,)* }
    };
    (@tests $host:expr, $connect:expr;) => {};
}

/// Four processes of three threads each count, swap, append, push, pop and meet; afterwards
/// every one of these has happened exactly once.
pub fn many_processes_lose_nothing<H, C>(host: impl FnOnce(&Path) -> (String, H), connect: C)
where
    C: Fn(&Context, &str) -> Arc<dyn Store>,
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

/// Three processes are killed while they write; the others go on, and never see a part of a
/// write, nor miss one of their own.
pub fn a_killed_process_leaves_whole_data<H, C>(host: impl FnOnce(&Path) -> (String, H), connect: C)
where
    C: Fn(&Context, &str) -> Arc<dyn Store>,
{
    let mut job = Ranks::new(2 + VICTIMS.end - VICTIMS.start).named_after(&connect).start(|ctx| {
        let store = connect(ctx, &ctx.told::<String>("address"));
        let mut writer = Writer { store: &*store, rank: ctx.rank(), written: 0 };
        if VICTIMS.contains(&ctx.rank()) {
            loop {
                writer.write();
                ctx.reach("writing");
            }
        }
        for victim in VICTIMS {
            while !ctx.has_been_told(&killed(victim)) {
                writer.write_and_read();
            }
            (0..5).for_each(|_| writer.write_and_read());
            ctx.reach(&killed(victim));
        }
        assert_whole(&*store, ctx.rank(), writer.written);
    });
    let (address, _host) = host(&job.dir());
    job.tell("address", &address);
    for victim in VICTIMS {
        job.await_point(victim, "writing");
        thread::sleep(Duration::from_millis(100));
        job.kill(victim);
        job.tell(&killed(victim), &());
        for survivor in 0..VICTIMS.start {
            job.await_point(survivor, &killed(victim));
        }
    }
    let outcomes = job.wait();
    let survivors = &outcomes[..VICTIMS.start as usize];
    assert!(survivors.iter().all(|outcome| *outcome == crate::Outcome::Done(())), "{outcomes:?}");
}

/// A pop that was waiting when its process was killed gets nothing any more.
pub fn a_killed_process_takes_no_element_along<H, C>(
    host: impl FnOnce(&Path) -> (String, H),
    connect: C,
) where
    C: Fn(&Context, &str) -> Arc<dyn Store>,
{
    let mut job = Ranks::new(2).named_after(&connect).start(|ctx| {
        let store = connect(ctx, &ctx.told::<String>("address"));
        if ctx.rank() == 1 {
            ctx.reach("popping");
            return store.pop("queue", Deadline::never()).expect("killed before");
        }
        ctx.told::<()>("killed");
        store.push("queue", b"element").expect("push");
        store.pop("queue", soon()).expect("nobody else takes it")
    });
    let (address, _host) = host(&job.dir());
    job.tell("address", &address);
    job.await_point(1, "popping");
    thread::sleep(REACTION);
    job.kill(1);
    thread::sleep(REACTION);
    job.tell("killed", &());
    let outcomes = job.wait();
    assert_eq!(outcomes[0], crate::Outcome::Done(b"element".to_vec()));
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

/// Writes what shows if it was written by half.
struct Writer<'a> {
    store: &'a dyn Store,
    rank: u32,
    written: u32,
}

impl Writer<'_> {
    fn write(&mut self) {
        self.written += 1;
        let page = [self.written as u8].repeat(PAGE);
        self.store.multi_set(&[("left", &page), ("right", &page)]).expect("multi_set");
        let record = [self.rank.to_le_bytes(), self.written.to_le_bytes()].concat();
        self.store.append("journal", &record).expect("append");
        let sum = self.store.add(&format!("written-{}", self.rank), 1).expect("add");
        assert_eq!(sum, i64::from(self.written));
    }

    fn write_and_read(&mut self) {
        self.write();
        let pages = self.store.multi_get(&["left", "right"], soon()).expect("multi_get");
        assert!(pages[0] == pages[1], "half of a multi_set");
        assert_eq!(pages[0].len(), PAGE);
        assert!(pages[0].iter().all(|byte| *byte == pages[0][0]), "half of a value");
    }
}

/// The journal has whole records only, each writer's in its order, and all of the survivors'.
fn assert_whole(store: &dyn Store, rank: u32, written: u32) {
    let journal = store.get("journal", soon()).expect("get");
    assert_eq!(journal.len() % 8, 0, "half a record");
    let mut last = BTreeMap::new();
    for record in journal.chunks(8) {
        let (writer, number) = record.split_at(4);
        let before = last.insert(writer, number).map_or(0, number_of);
        assert_eq!(number_of(number), before + 1, "a record was lost or came twice");
    }
    assert_eq!(last[rank.to_le_bytes().as_slice()], written.to_le_bytes());
    for victim in VICTIMS {
        // Killed between the two, a writer has journalled once more than it has counted.
        let journalled = i64::from(number_of(last[victim.to_le_bytes().as_slice()]));
        let counted = store.add(&format!("written-{victim}"), 0).expect("add");
        assert!((journalled - 1..=journalled).contains(&counted), "{counted} of {journalled}");
    }
}

fn killed(victim: u32) -> String {
    format!("killed {victim}")
}

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn parse(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

const WORLD: u32 = 4;
const THREADS: u32 = 3;
const MEMBERS: u32 = WORLD * THREADS;
const ROUNDS: u32 = 20;
const VICTIMS: std::ops::Range<u32> = 2..5;

/// Large enough to be caught in the middle of.
const PAGE: usize = 64 << 10;

/// Time for a call to reach the store, or for the store to see that its caller is gone.
const REACTION: Duration = Duration::from_millis(300);
