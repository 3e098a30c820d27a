//! A guard keeps the memory.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let memory = group.symmetric::<u8>(8)?;
    let window = memory.local()?;
    drop(memory);
    println!("{}", window[0]);
    Ok(())
}
