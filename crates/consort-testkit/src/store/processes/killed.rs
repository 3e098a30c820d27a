//! Processes that are killed while they use a store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Store};

use crate::ranks::{Context, Outcome, Ranks};
use crate::store::subject::soon;

/// Three processes are killed while they write; the others go on, and never see a part of a
/// write, nor miss one of their own.
pub fn a_killed_process_leaves_whole_data<H, C>(host: impl FnOnce(&Path) -> (String, H), connect: C)
where
    C: Fn(&Context, &str) -> Arc<dyn Store> + Sync,
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
    assert!(survivors.iter().all(|outcome| *outcome == Outcome::Done(())), "{outcomes:?}");
}

/// A pop that was waiting when its process was killed gets nothing any more.
pub fn a_killed_process_takes_no_element_along<H, C>(
    host: impl FnOnce(&Path) -> (String, H),
    connect: C,
) where
    C: Fn(&Context, &str) -> Arc<dyn Store> + Sync,
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
    assert_eq!(outcomes[0], Outcome::Done(b"element".to_vec()));
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

const VICTIMS: Range<u32> = 2..5;

/// Large enough to be caught in the middle of.
const PAGE: usize = 64 << 10;

/// Time for a call to reach the store, or for the store to see that its caller is gone.
const REACTION: Duration = Duration::from_millis(300);
