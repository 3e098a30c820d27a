//! A lent buffer stays where it is.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = vec![1.0_f32; 8];
    group.scope(|s| {
        s.all_reduce(&mut numbers, consort::ReduceOp::Sum)?;
        numbers = Vec::new();
        Ok(())
    })
}
