//! A slice needs the guard, which keeps everyone else away.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let memory = group.symmetric::<u8>(8)?;
    let mut window = memory.local()?;
    let slice = &mut window[..];
    drop(window);
    slice[0] = 1;
    Ok(())
}
