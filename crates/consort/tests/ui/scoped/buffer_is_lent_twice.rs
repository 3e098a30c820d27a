//! Two calls that go on at the same time have a buffer each.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.scope(|s| {
        s.all_reduce(&mut numbers, consort::ReduceOp::Sum)?;
        s.broadcast(&mut numbers, 0)
    })
}
