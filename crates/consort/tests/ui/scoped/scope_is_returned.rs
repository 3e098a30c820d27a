//! Nor can the scope be what comes of it.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let s = group.scope(|s| Ok(s))?;
    s.barrier()
}
