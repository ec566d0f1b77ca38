//! See `system_tests::fuzz::log_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| system_tests::fuzz::log_segment(data));
