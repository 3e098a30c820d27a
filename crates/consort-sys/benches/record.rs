//! What it costs to write down a call: its beginning and its end.

use std::hint::black_box;
use std::panic::Location;
use std::time::Duration;

use consort_sys::record::{About, Recording, Stopwatch};
use criterion::{Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};

fn calls(criterion: &mut Criterion) {
    for (name, sites) in [("record a call", false), ("record a call and its site", true)] {
        let about = About { rank: 0, world: 1, epoch: 0, job: "bench", sites };
        let recording = Recording::private(&about).expect("there is memory");
        let journal = recording.journal("world", 0, &[0]).expect("there is memory").expect("room");
        let mut number = 0;
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|times| {
                let before = processor_time();
                for _ in 0..times {
                    number += 1;
                    journal.begin(number, black_box([0x0102, 1024]), Some(Location::caller()));
                    journal.end(number, black_box(4096), true, black_box(0));
                }
                processor_time() - before
            });
        });
    }
}

/// What it costs to time a piece of work.
fn pieces(criterion: &mut Criterion) {
    let watch = Stopwatch::default();
    criterion.bench_function("time a piece", |bencher| {
        bencher.iter_custom(|times| {
            let before = processor_time();
            (0..times).for_each(|_| watch.time(black_box(1 << 20), || ()));
            processor_time() - before
        });
    });
}

/// Of this thread, so that others on the machine do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

criterion_group!(benches, calls, pieces);
criterion_main!(benches);
