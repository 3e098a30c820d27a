//! A work can be forgotten, and the call goes on: it cannot borrow.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.all_reduce_async(&mut numbers[..], consort::ReduceOp::Sum)?.wait()?;
    Ok(())
}
