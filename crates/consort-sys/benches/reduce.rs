//! How fast buffers are combined, beside how fast one is copied.
//!
//! Bytes are those of the result. Copying reads as many and writes as many; combining two reads
//! twice as many. Buffers begin at different places of different pages, as they do in earnest.

use std::hint::black_box;
use std::time::Duration;

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
        group.sample_size(20);
        group.warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_millis(600));
        copy(&mut group, len);
        for (dtype, op) in KERNELS {
            bench(&mut group, &format!("{dtype} {op}"), dtype, op, 2, 1, len);
        }
        bench(&mut group, "f32 sum to two", Dtype::F32, ReduceOp::Sum, 2, 2, len);
        bench(&mut group, "f32 sum of eight", Dtype::F32, ReduceOp::Sum, 8, 1, len);
        bench(&mut group, "bf16 sum of eight", Dtype::Bf16, ReduceOp::Sum, 8, 1, len);
        bench(&mut group, "f32 sum in place", Dtype::F32, ReduceOp::Sum, 2, 0, len);
        group.finish();
    }
}

fn copy(group: &mut BenchmarkGroup<'_, WallTime>, len: usize) {
    let mut buffers = Buffers::new(2, len);
    let views = buffers.targets();
    group.bench_function("copy", |bencher| {
        bencher.iter(|| black_box(views[0]).copy_from(black_box(views[1]).into()));
    });
}

/// With no targets of its own the result goes to the first source.
fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    dtype: Dtype,
    op: ReduceOp,
    world: usize,
    targets: usize,
    len: usize,
) {
    let kernel = Kernel::new(dtype, op, world).expect("every dtype here has the operation");
    let mut buffers = Buffers::new(targets + world, len);
    let views = buffers.targets();
    let sources: Vec<Source<'_>> = views[targets..].iter().map(|view| (*view).into()).collect();
    let targets = &views[..targets.max(1)];
    group.bench_function(name, |bencher| {
        bencher.iter(|| kernel.reduce(black_box(targets), black_box(&sources)));
    });
}

const KERNELS: [(Dtype, ReduceOp); 20] = [
    (Dtype::F32, ReduceOp::Sum),
    (Dtype::F32, ReduceOp::Max),
    (Dtype::F32, ReduceOp::Avg),
    (Dtype::F32, ReduceOp::PremulSum(0.5)),
    (Dtype::F64, ReduceOp::Sum),
    (Dtype::F64, ReduceOp::Max),
    (Dtype::F16, ReduceOp::Sum),
    (Dtype::F16, ReduceOp::Max),
    (Dtype::Bf16, ReduceOp::Sum),
    (Dtype::Bf16, ReduceOp::Max),
    (Dtype::F8E4m3, ReduceOp::Sum),
    (Dtype::F8E5m2, ReduceOp::Sum),
    (Dtype::I32, ReduceOp::Sum),
    (Dtype::I32, ReduceOp::Avg),
    (Dtype::I64, ReduceOp::Max),
    (Dtype::I64, ReduceOp::Avg),
    (Dtype::U8, ReduceOp::Product),
    (Dtype::U64, ReduceOp::BitXor),
    (Dtype::Bool, ReduceOp::BitOr),
    (Dtype::C64, ReduceOp::Product),
];

const PAGE: usize = 4096;

criterion_group!(benches, combine);
criterion_main!(benches);
