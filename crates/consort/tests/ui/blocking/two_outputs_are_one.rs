//! Two ranks' parts cannot go to the same place.

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut part = [0_u32; 4];
    group.all_gather_list(&[1, 2, 3, 4], &mut [&mut part, &mut part])
}
