//! A first program: the ranks of a job find each other and say hello.
//!
//! ```text
//! cargo build --example hello
//! cargo run --bin consort -- run -n 3 -- target/debug/examples/hello
//! ```

use consort::{Deadline, Store};

fn main() -> Result<(), consort::Error> {
    // Rank, world, place and secret come from the launcher. This returns when every rank is here,
    // or fails on every rank with the names of those who are not.
    let group = consort::init()?;
    let (rank, world) = (group.rank(), group.world());
    let (local_rank, local_world) = (group.local_rank(), group.local_world());
    let host = &group.members()[rank.index()].host;
    println!("rank {rank} of {world}: {local_rank} of {local_world} on {host}");

    // The store is shared by all ranks: small things can be left there for each other.
    let greeting = format!("hello from process {}", std::process::id());
    group.store().set(&format!("greeting/{rank}"), greeting.as_bytes())?;

    // A get waits until its key is there, so rank 0 needs no other signal.
    if rank.get() == 0 {
        for rank in 0..world {
            let until = Deadline::after(group.timeout());
            let greeting = group.store().get(&format!("greeting/{rank}"), until)?;
            println!("rank {rank} left: {}", String::from_utf8_lossy(&greeting));
        }
    }

    // Nobody goes before everybody has been heard.
    group.barrier()
}
