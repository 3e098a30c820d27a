#![no_main]

use libfuzzer_sys::fuzz_target;

// A part of the program `consort`, which is no library.
#[allow(dead_code)]
#[path = "../../crates/consort-cli/src/run/pmi/words.rs"]
mod words;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let mut reader = words::Reader::default();
    for piece in bytes.chunks(usize::from(piece).max(1)) {
        reader.feed(piece);
        while let Some(_asked) = match reader.take() {
            Ok(asked) => asked,
            Err(words::Senseless(_)) => return,
        } {}
    }
});
