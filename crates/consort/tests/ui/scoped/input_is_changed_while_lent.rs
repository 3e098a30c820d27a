//! What a call reads stays as it is meanwhile.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let (mut input, mut output) = ([1.0_f32; 8], [0.0_f32; 8]);
    group.scope(|s| {
        s.all_gather(&input, &mut output)?;
        input[0] = 2.0;
        Ok(())
    })
}
