//! Other ranks can write any byte, and not every byte is a truth.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    group.symmetric::<bool>(8)?;
    Ok(())
}
