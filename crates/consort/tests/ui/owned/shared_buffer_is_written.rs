//! What others may read is no output.

use std::sync::Arc;

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let numbers: Arc<[f32]> = Arc::new([1.0; 8]);
    group.all_reduce_async(numbers.clone(), consort::ReduceOp::Sum)?.wait()?;
    Ok(())
}
