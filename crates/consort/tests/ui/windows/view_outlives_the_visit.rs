//! Bytes that others may copy to are only there during the visit.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let memory = group.symmetric::<u8>(8)?;
    let raw = memory.raw(0)?;
    let view = raw.view();
    drop(raw);
    println!("{}", view.len());
    Ok(())
}
