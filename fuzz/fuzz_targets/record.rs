//! See `system_tests::fuzz::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| system_tests::fuzz::record(data));
