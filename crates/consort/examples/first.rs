//! A first program: ranks that compute something together.
//!
//! Every rank has some numbers of its own. Together they find the average of all, hear what rank 0
//! has to say, and learn what each of them has.
//!
//! ```text
//! cargo build --example first
//! cargo run --bin consort -- run -n 3 -- target/debug/examples/first
//! ```

use consort::ReduceOp;

fn main() -> Result<(), consort::Error> {
    // Who this process is, how many there are and where they meet comes from the launcher. When
    // this returns, every rank is here.
    let group = consort::init()?;
    let (rank, world) = (group.rank(), group.world());

    // Every rank begins with other numbers. Afterwards all have the same: the average of all.
    let mut gradients = [rank.as_f32(), 10.0 * rank.as_f32()];
    group.all_reduce(&mut gradients, ReduceOp::Avg)?;

    // Rank 0 has chosen something, and everyone gets it. What the others had is overwritten.
    let mut seed = [if rank.get() == 0 { 42_u64 } else { 0 }];
    group.broadcast(&mut seed, 0)?;

    // Every rank gives the number of its process and gets everyone's, in the order of ranks.
    let mut processes = vec![0; world];
    group.all_gather(&[std::process::id()], &mut processes)?;
    let others = processes.iter().filter(|&&process| process != std::process::id()).count();

    println!("rank {rank} of {world}: average {gradients:?}, seed {seed:?}, {others} others");
    Ok(())
}
