//! A source borrows its memory as `&` does.

use consort::Source;

fn main() {
    let mut bytes = vec![1_u8; 8];
    let source = Source::from(&bytes[..]);
    bytes.push(2);
    println!("{:?}", source.to_vec());
}
