//! Nor can it be a part of it.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = [1.0_f32; 8];
    group.all_gather(&numbers[..4], &mut numbers)
}
