//! The buffer belongs to the call until the work gives it back.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let numbers = vec![1.0_f32; 8];
    let work = group.all_reduce_async(numbers, consort::ReduceOp::Sum)?;
    println!("{}", numbers[0]);
    work.wait()?;
    Ok(())
}
