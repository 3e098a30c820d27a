#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&[u8], u8)| consort_store::fuzzing::records(input.0, input.1.into()));
