//! One call has the window.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let memory = group.symmetric::<u8>(8)?;
    let mut window = memory.local()?;
    group.all_reduce_into(&window, &mut window, consort::ReduceOp::Sum)
}
