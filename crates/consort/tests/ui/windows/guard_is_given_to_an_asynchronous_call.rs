//! A guard borrows the memory and stays on its thread. One that is owned is kept.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let memory = group.symmetric::<u8>(8)?;
    group.all_reduce_async(memory.local()?, consort::ReduceOp::Sum)?.wait()?;
    Ok(())
}
