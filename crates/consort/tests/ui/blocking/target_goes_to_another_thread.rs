//! Targets may be the same memory, so that two threads must not have them.

use consort::Target;

fn main() {
    let mut bytes = [1_u8; 8];
    for_another_thread(Target::from(&mut bytes[..]));
}

fn for_another_thread(_: impl Send) {}
