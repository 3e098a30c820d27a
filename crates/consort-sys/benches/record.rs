//! What it costs to write down a call: its beginning and its end.

use std::hint::black_box;

use consort_sys::record::{About, Recording};
use criterion::{Criterion, criterion_group, criterion_main};

fn calls(criterion: &mut Criterion) {
    let about = About { rank: 0, world: 1, epoch: 0, job: "bench" };
    let recording = Recording::private(&about).expect("there is memory");
    let journal = recording.journal("world", 0, &[0]).expect("there is memory").expect("room");
    let mut number = 0;
    criterion.bench_function("record a call", |bencher| {
        bencher.iter(|| {
            number += 1;
            journal.begin(number, black_box([0x0102, 1024]));
            journal.end(number, black_box(4096), true);
        });
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
