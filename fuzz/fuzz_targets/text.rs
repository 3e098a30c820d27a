#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| consort_store::fuzzing::text(text));
