//! How fast buffers are combined, beside how fast one is copied: every dtype in every way.
//!
//! Bytes are those of the result. Copying reads as many and writes as many; combining two reads
//! twice as many. Buffers begin at different places of different pages, as they do in earnest.
//!
//! At the end of each size there is a table: how fast each kernel is at its fastest, in parts of the
//! speed of copying.

use std::hint::black_box;
use std::time::{Duration, Instant};

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

/// Memory for a few buffers.
struct Buffers {
    memory: Vec<Vec<u8>>,
    len: usize,
}

impl Buffers {
    fn new(count: usize, len: usize) -> Self {
        // In every format of floating-point numbers these bytes make numbers near 1.
        let fill = [0x38, 0x3a, 0x3b, 0x39].into_iter().cycle();
        let memory = (0..count).map(|_| fill.clone().take(len + 2 * PAGE).collect()).collect();
        Self { memory, len }
    }

    fn targets(&mut self) -> Vec<Target<'_>> {
        let len = self.len;
        let places = self.memory.iter_mut().enumerate().map(|(i, memory)| {
            let page = memory.as_ptr().align_offset(PAGE);
            Target::from(&mut memory[page + i * 192 % PAGE..][..len])
        });
        places.collect()
    }
}

fn combine(criterion: &mut Criterion) {
    for (len, name) in [(64 << 10, "64 KiB"), (16 << 20, "16 MiB")] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(len as u64));
        group.sample_size(10);
        group.nresamples(1_000);
        group.warm_up_time(Duration::from_millis(50));
        group.measurement_time(Duration::from_millis(200));
        let copied = copy(&mut group, len);
        let others = [
            ("f32 sum to two", Shape { targets: 2, ..Shape::of(Dtype::F32, ReduceOp::Sum) }),
            ("f32 sum of eight", Shape { world: 8, ..Shape::of(Dtype::F32, ReduceOp::Sum) }),
            ("bf16 sum of eight", Shape { world: 8, ..Shape::of(Dtype::Bf16, ReduceOp::Sum) }),
            ("f32 sum in place", Shape { targets: 0, ..Shape::of(Dtype::F32, ReduceOp::Sum) }),
        ];
        let mut table = Vec::new();
        for dtype in Dtype::ALL {
            let of = |op| reduce(&mut group, &format!("{dtype} {op}"), Shape::of(dtype, op), len);
            table.push((dtype.to_string(), OPS.map(of).to_vec()));
        }
        for (name, shape) in others {
            table.push((name.to_owned(), vec![reduce(&mut group, name, shape, len)]));
        }
        group.finish();
        show(name, copied, &table);
    }
}

/// Returns how long it takes at its fastest.
fn copy(group: &mut BenchmarkGroup<'_, WallTime>, len: usize) -> Option<f64> {
    let mut buffers = Buffers::new(2, len);
    let views = buffers.targets();
    time(group, "copy", || black_box(views[0]).copy_from(black_box(views[1]).into()))
}

/// What is combined.
#[derive(Clone, Copy)]
struct Shape {
    dtype: Dtype,
    op: ReduceOp,
    world: usize,
    /// With none of its own the result goes to the first source.
    targets: usize,
}

impl Shape {
    /// Two buffers to a third one.
    fn of(dtype: Dtype, op: ReduceOp) -> Self {
        Self { dtype, op, world: 2, targets: 1 }
    }
}

/// Returns how long it takes at its fastest; `None` if the dtype does not have the operation, or
/// nobody asked for it.
fn reduce(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    shape: Shape,
    len: usize,
) -> Option<f64> {
    let Shape { dtype, op, world, targets } = shape;
    let kernel = Kernel::new(dtype, op, world).ok()?;
    let mut buffers = Buffers::new(targets + world, len);
    let views = buffers.targets();
    let sources: Vec<Source<'_>> = views[targets..].iter().map(|view| (*view).into()).collect();
    let targets = &views[..targets.max(1)];
    time(group, name, || kernel.reduce(black_box(targets), black_box(&sources)))
}

/// Seconds of one call at its fastest; `None` if nobody asked for it.
fn time(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    mut call: impl FnMut(),
) -> Option<f64> {
    let mut fastest = None;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|calls| {
            let begun = Instant::now();
            (0..calls).for_each(|_| call());
            let took = begun.elapsed();
            let each = took.as_secs_f64() / calls as f64;
            fastest = Some(fastest.map_or(each, |fastest| each.min(fastest)));
            took
        });
    });
    fastest
}

/// Speeds in parts of the speed of copying.
fn show(size: &str, copied: Option<f64>, table: &[(String, Vec<Option<f64>>)]) {
    let Some(copied) = copied else { return };
    println!("\nresults of {size}: speed in parts of that of copying");
    let names: String = OPS.map(|op| format!("{:>11}", op.name())).concat();
    println!("{:18}{names}", "");
    for (name, times) in table {
        let share = |time: &Option<f64>| match time {
            Some(time) => format!("{:>11.2}", copied / time),
            None => format!("{:>11}", ""),
        };
        println!("{name:18}{}", times.iter().map(share).collect::<String>().trim_end());
    }
    println!();
}

const OPS: [ReduceOp; 9] = ReduceOp::ALL;

const PAGE: usize = 4096;

criterion_group!(benches, combine);
criterion_main!(benches);
