//! Measures an all_reduce that MPI carries out for consort against MPI's own, in turn: same library, same
//! processes, same buffer.

mod plain;

use std::time::Instant;

use consort::{Group, ReduceOp, Result};

use plain::Plain;

fn main() -> Result<()> {
    let group = consort::init()?;
    let plain = Plain::find();
    if group.rank() == 0 {
        println!(
            "{} ranks by {}, f32, sum, in place: median µs",
            group.world(),
            group.backend_name()?
        );
        println!("{:>10}  {:>10}  {:>10}  {:>6}", "bytes", "consort", "MPI", "ratio");
    }
    for bytes in SIZES {
        let mut data = vec![1.0_f32; bytes / size_of::<f32>()];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // As many calls as take about so long; ranks have to agree on it.
        let mut calls = [calls_in_block(&group, &plain, &mut data)?];
        group.broadcast(&mut calls, 0)?;
        for _ in 0..BLOCKS {
            ours.push(block(&group, calls[0], || group.all_reduce(&mut data, ReduceOp::Sum))?);
            data.fill(1.0);
            theirs.push(block(&group, calls[0], || {
                plain.all_reduce(&mut data);
                Ok(())
            })?);
            data.fill(1.0);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        if group.rank() == 0 {
            println!("{bytes:>10}  {ours:>10.2}  {theirs:>10.2}  {:>6.2}", ours / theirs);
        }
    }
    Ok(())
}

/// How long a call takes on average, of so many that begin at the same time on all ranks, in microseconds.
fn block(group: &Group, calls: u32, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    group.barrier()?;
    let began = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

/// How many calls are worth a look at the clock.
fn calls_in_block(group: &Group, plain: &Plain, data: &mut [f32]) -> Result<u32> {
    let once = block(group, WARMUP, || {
        plain.all_reduce(data);
        Ok(())
    })?;
    data.fill(1.0);
    block(group, WARMUP, || group.all_reduce(data, ReduceOp::Sum))?;
    data.fill(1.0);
    Ok((BLOCK_US / once).clamp(1.0, 1000.0) as u32)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

const SIZES: [usize; 4] = [8, 64 << 10, 1 << 20, 16 << 20];
const BLOCKS: usize = 101;
const BLOCK_US: f64 = 2_000.0;
const WARMUP: u32 = 3;
