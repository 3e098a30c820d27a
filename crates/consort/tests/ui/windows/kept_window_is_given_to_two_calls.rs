//! A window is kept once, and a call that owns it has it to itself.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let kept = group.symmetric::<u8>(8)?.keep()?;
    let first = group.all_reduce_async(kept, consort::ReduceOp::Sum)?;
    let second = group.all_reduce_async(kept, consort::ReduceOp::Max)?;
    println!("{} {}", first.wait()?[0], second.wait()?[0]);
    Ok(())
}
