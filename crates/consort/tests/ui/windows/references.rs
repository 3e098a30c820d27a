//! An address means something else in another process.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    group.symmetric::<&'static u8>(8)?;
    Ok(())
}
