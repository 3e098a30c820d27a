//! A slice needs what keeps everyone else away, wherever that goes.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut kept = group.symmetric::<u8>(8)?.keep()?;
    let slice = &mut kept[..];
    std::thread::spawn(move || drop(kept));
    slice[0] = 1;
    Ok(())
}
