//! The buffer is given back once.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let work = group.all_reduce_async(vec![1.0_f32; 8], consort::ReduceOp::Sum)?;
    let _one = work.wait()?;
    let _two = work.wait()?;
    Ok(())
}
