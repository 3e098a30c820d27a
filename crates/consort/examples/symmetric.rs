//! Memory that all ranks of a host reach.
//!
//! Each rank has a window of the same size, and everyone can read and write everyone's. Nothing is
//! sent: what a rank puts into a peer's window is in the peer's memory.
//!
//! ```text
//! cargo build --example symmetric
//! cargo run --bin consort -- run -n 3 -- target/debug/examples/symmetric
//! ```

use consort::ReduceOp;

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let (me, world) = (group.rank().index(), group.world());
    let (next, previous) = ((me + 1) % world, (me + world - 1) % world);

    // A place for each rank in everyone's window. The guard that `local` gives keeps others out
    // while it is held: here until the end of the line.
    let memory = group.symmetric::<u32>(world)?;
    memory.local()?[me] = 10 * me as u32;

    // Everyone passes on to the next rank what it got from the one before, until all have all. The
    // signal says that what was put before it is there.
    for step in 0..world - 1 {
        let place = (me + world - step) % world;
        let number = memory.local()?[place];
        memory.put_with_signal(next as u32, place, &[number], 0)?;
        memory.wait_signal(previous as u32, 0)?;
    }
    let gathered = memory.local()?.to_vec();

    // A collective on windows reads and writes them where they are.
    memory.two_shot_all_reduce(ReduceOp::Sum)?;
    let sums = memory.local()?.to_vec();

    // Who needs much memory for a short time borrows it: the group keeps it for the next time.
    let scratch = group.workspace::<f32>(1 << 16)?;
    scratch.local()?.fill(me as f32);
    let mut highest = vec![0.0; 1 << 16];
    scratch.one_shot_all_reduce(&mut highest, ReduceOp::Max)?;

    println!("rank {me}: gathered {gathered:?}, sums {sums:?}, highest {}", highest[0]);
    Ok(())
}
