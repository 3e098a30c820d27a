//! The buffers are there again when the scope ends.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.scope(|s| {
        s.all_reduce(&mut numbers, consort::ReduceOp::Sum)?;
        numbers.fill(0.0);
        Ok(())
    })
}
