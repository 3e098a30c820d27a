//! What is read cannot be what is written, except in the forms in place.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.all_reduce_into(&numbers, &mut numbers, consort::ReduceOp::Sum)
}
