//! See `system_tests::fuzz::replay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| system_tests::fuzz::replay(data));
