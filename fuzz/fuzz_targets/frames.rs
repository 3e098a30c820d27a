#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], u16, bool)| consort::fuzzing::frames(
    input.0,
    input.1.into(),
    input.2
));
