//! A target borrows its memory as `&mut` does.

use consort::{Call, Dtype, Element, Rank};

fn main() -> Result<(), consort::Error> {
    let group = consort::init()?;
    let mut numbers = vec![1.0_f32; 8];
    let buffer = f32::target(&mut numbers);
    numbers.clear();
    group.call(&Call::Broadcast { dtype: Dtype::F32, root: Rank::from(0), buffer })
}
