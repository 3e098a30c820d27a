//! A source may be the memory of a target.

use consort::Source;

fn main() {
    for_another_thread(Source::from(&[1_u8; 8][..]));
}

fn for_another_thread(_: impl Send) {}
