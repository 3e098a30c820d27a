//! What is read is not written.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.scope(|s| s.all_gather(&numbers[..4], &mut numbers))
}
