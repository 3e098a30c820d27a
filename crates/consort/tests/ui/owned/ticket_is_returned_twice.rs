//! A ticket stands for buffers that are given back once.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let work = group.coalesced(|calls| {
        let ticket = calls.all_reduce(vec![1.0_f32], consort::ReduceOp::Sum)?;
        Ok((ticket, ticket))
    })?;
    work.wait()?;
    Ok(())
}
