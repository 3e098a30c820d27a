//! Nothing can be lent when the scope has ended.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut kept = None;
    group.scope(|s| {
        kept = Some(s);
        Ok(())
    })?;
    kept.map_or(Ok(()), |s| s.barrier())
}
