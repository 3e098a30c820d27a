#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| consort_store::fuzzing::notes(bytes));
