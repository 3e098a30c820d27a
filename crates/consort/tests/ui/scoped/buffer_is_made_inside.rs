//! Buffers have to be there before the scope is.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    group.scope(|s| {
        let mut numbers = [1.0_f32; 8];
        s.all_reduce(&mut numbers, consort::ReduceOp::Sum)
    })
}
