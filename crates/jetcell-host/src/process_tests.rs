//! Tests of process information.

use super::*;

#[test]
fn this_process_uses_memory_and_has_a_host() {
    assert!(peak_resident_bytes().unwrap() > 0 && processor_seconds().is_finite());
    assert!(host_name().len() <= 255);
}

#[test]
fn fields_are_parsed() {
    let text = "model name\t: A B\nMemTotal:   4 kB\nPRETTY_NAME=\"Linux 1\"\n";
    assert_eq!(field(text, "model name"), Some("A B"));
    assert_eq!(field(text, "PRETTY_NAME"), Some("Linux 1"));
    assert_eq!((kibibytes_field(text, "MemTotal"), kibibytes_field(text, "Mem")), (Some(4096), None));
    assert_eq!(processor_ticks("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 13"), 42);
}
