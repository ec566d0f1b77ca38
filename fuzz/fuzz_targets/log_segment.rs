//! See `testkit::fuzz::log_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| testkit::fuzz::log_segment(data));
