//! A thread that outlives the scope cannot have it.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    group.scope(|s| {
        for_a_thread_that_stays(|| drop(s.barrier()));
        Ok(())
    })
}

fn for_a_thread_that_stays(_: impl FnOnce() + Send + 'static) {}
