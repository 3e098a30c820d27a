//! Calls and messages that go on while the program computes.
//!
//! A rank that waits for others does nothing else. These are the ways not to wait: calls that own
//! their buffers, calls on borrowed buffers in a scope, and messages in the background.
//!
//! ```text
//! cargo build --example asynchronous
//! cargo run --bin consort -- run -n 3 -- target/debug/examples/asynchronous
//! ```

use consort::ReduceOp;

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let (rank, world) = (group.rank().get(), group.world() as u32);

    // The call owns its buffer and returns at once. Others carry it out while this thread computes
    // something else; nobody can touch the buffer until `wait` gives it back.
    let work = group.all_reduce_async(vec![rank as f32; 1 << 20], ReduceOp::Avg)?;
    let series: f64 = (1..100_000).map(|n| 1.0 / f64::from(n).powi(2)).sum();
    let average = work.wait()?[0];

    // Buffers that are only borrowed come back at the end of a scope, which waits for its calls.
    let (mut weights, mut samples) = ([f64::from(rank) + 1.0; 64], [10_u64]);
    group.scope(|s| {
        s.broadcast(&mut weights, 0)?;
        s.all_reduce(&mut samples, ReduceOp::Sum)
    })?;

    // Everyone sends to the next rank before it receives from the one before. With blocking calls
    // all would wait for each other; here the messages pass while nobody waits.
    let (next, previous) = ((rank + 1) % world, (rank + world - 1) % world);
    let sent = group.send_async(vec![rank; 1 << 20], next, 7)?;
    let received = group.recv_async(vec![u32::MAX; 1 << 20], previous, 7)?;
    let theirs = received.wait()?[0];
    sent.wait()?;

    println!(
        "rank {rank}: average {average}, series {series:.3}, weight {}, {} samples, rank {theirs} \
         wrote",
        weights[0], samples[0]
    );
    Ok(())
}
