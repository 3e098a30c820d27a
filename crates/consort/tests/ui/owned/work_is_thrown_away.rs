//! Who throws the work away does not do so by mistake.
#![deny(unused_must_use)]

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    group.all_reduce_async(vec![1.0_f32; 8], consort::ReduceOp::Sum)?;
    Ok(())
}
